"""Who is running here and now (RCX-10). The value is ambient only while a step of the run is being executed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass
from typing import Any, Final

from turnfleet_kernel.contracts.quick import quick_init
from turnfleet_kernel.contracts.record import PauseRecord
from turnfleet_kernel.contracts.values import RunIdentity
from turnfleet_kernel.errors import ContractViolationError
from turnfleet_kernel.ports import Ids

__all__ = ["Ambient", "current_ambient", "current_run_identity", "enter", "identify", "leave", "within"]


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


# Around every step of a run: the variable's own methods, without a step through Python.
enter: Final[Callable[[Ambient], Token[Ambient | None]]] = _AMBIENT.set
"""Make the values ambient; leave() with the token before anything is yielded."""

leave: Final[Callable[[Token[Ambient | None]], None]] = _AMBIENT.reset
"""Restore what was ambient before."""


@contextmanager
def within(ambient: Ambient) -> Iterator[None]:
    """Make the values ambient for a plain block."""
    token = enter(ambient)
    try:
        yield
    finally:
        leave(token)


def identify(
    plan_id: str, ids: Ids, run_id: str | None, restored: PauseRecord | None, identity: RunIdentity | None
) -> RunIdentity:
    """Say who a run is: as placed in its tree, as recorded, as named, else with a fresh id (RCX-1, RCX-5).

    Raises:
        ContractViolationError: the arguments name different runs, or a record of another plan.
    """
    named = {name for name in (run_id, restored and restored.run_id, identity and identity.run_id) if name}
    if len(named) > 1:
        raise ContractViolationError(f"one context cannot serve several runs: {', '.join(sorted(named))}")
    if restored is not None and restored.plan_id != plan_id:
        msg = f"run {restored.run_id} was recorded with plan {restored.plan_id}, not {plan_id}"
        raise ContractViolationError(msg)
    if identity is not None:
        return identity
    if restored is not None:
        depth = 0 if restored.parent_run_id is None else 1
        return RunIdentity(restored.run_id, restored.root_run_id, restored.parent_run_id, depth)
    return RunIdentity.root(named.pop() if named else ids.new())
