"""Who is running here and now (RCX-10). The value is ambient only while a step of the run is being executed."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass
from typing import Any, Final

from turnfleet_kernel.contracts.quick import quick_init
from turnfleet_kernel.contracts.values import RunIdentity

__all__ = ["Ambient", "current_ambient", "current_run_identity", "enter", "leave", "within"]


@quick_init
@dataclass(frozen=True, slots=True)
class Ambient:
    """What code inside a run can find out without being passed it: the run, the depth its root allows, the call."""

    identity: RunIdentity
    max_depth: int
    call: Any = None
    """The ToolCall in which this code runs, None outside tools."""


_AMBIENT: Final[ContextVar[Ambient | None]] = ContextVar("turnfleet_ambient", default=None)


def current_ambient() -> Ambient | None:
    """Give the ambient values, None outside any run."""
    return _AMBIENT.get()


def current_run_identity() -> RunIdentity | None:
    """Tell which run this code is part of; None outside any run."""
    ambient = _AMBIENT.get()
    return None if ambient is None else ambient.identity


def enter(ambient: Ambient) -> Token[Ambient | None]:
    """Make the values ambient; leave() with the token before anything is yielded."""
    return _AMBIENT.set(ambient)


def leave(token: Token[Ambient | None]) -> None:
    """Restore what was ambient before."""
    _AMBIENT.reset(token)


@contextmanager
def within(ambient: Ambient) -> Iterator[None]:
    """Make the values ambient for a plain block."""
    token = enter(ambient)
    try:
        yield
    finally:
        leave(token)
