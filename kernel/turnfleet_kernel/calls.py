"""What a running tool can say and find out: progress, a child's events, what it spent (EVT-3, DEL-1)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from turnfleet_kernel.contracts.events import KernelEvent
from turnfleet_kernel.contracts.frozen import FrozenDict
from turnfleet_kernel.contracts.interrupts import Decision
from turnfleet_kernel.contracts.record import PauseRecord
from turnfleet_kernel.contracts.values import NO_USAGE, RunIdentity, ToolOutcome, UsageDelta
from turnfleet_kernel.identity import current_ambient

__all__ = ["ChildHad", "Progressed", "Told", "ToolCall", "charged", "current_call"]


@dataclass(frozen=True, slots=True)
class Progressed:
    """A running tool reported a value."""

    call_id: str
    value: Any


@dataclass(frozen=True, slots=True)
class ChildHad:
    """A run delegated to, however deep, had an event of its own."""

    identity: RunIdentity
    event: KernelEvent


Told: TypeAlias = Progressed | ChildHad

_UNDECIDED: Final = FrozenDict[str, Decision]()


class ToolCall:
    """The call in which a tool runs; ``current_call()`` gives it to the tool's own code.

    ``decisions`` are all decisions of this invocation by interrupt id; ``child`` is the record of the delegated run
    that this call started in an earlier invocation; ``streaming`` tells whether the consumer asked for deltas;
    ``above`` is the call that this whole run is delegated by, None for a root.
    """

    __slots__ = ("_stopped", "_tell", "above", "call_id", "child", "decisions", "name", "streaming", "usage")

    def __init__(
        self,
        call_id: str,
        name: str,
        tell: Callable[[Told], Awaitable[None]],
        stopped: MutableMapping[str, Callable[[], PauseRecord]],
        *,
        above: ToolCall | None = None,
        child: PauseRecord | None = None,
        decisions: Mapping[str, Decision] | None = None,
        streaming: bool = False,
    ) -> None:
        """Describe a call.

        ``tell`` hands something to the run's loop and returns when the loop has taken it; ``stopped`` keeps the ways to
        record delegated runs that stopped, by call id.
        """
        self.above = above
        self.call_id = call_id
        self.name = name
        self.child = child
        self.decisions: Mapping[str, Decision] = _UNDECIDED if decisions is None else decisions
        self.streaming = streaming
        self.usage = NO_USAGE
        self._tell = tell
        self._stopped = stopped

    async def progress(self, value: Any) -> None:
        """Show progress; returns when the consumer has taken what came before (EVT-8)."""
        await self._tell(Progressed(self.call_id, value))

    async def child_had(self, identity: RunIdentity, event: KernelEvent) -> None:
        """Pass an event of a delegated run on, up to the root, whose loop makes a ``child`` event of it (EVT-3)."""
        if self.above is not None:
            await self.above.child_had(identity, event)
        else:
            await self._tell(ChildHad(identity, event))

    def child_stopped(self, record: Callable[[], PauseRecord]) -> None:
        """Say how to record the delegated run, which has not ended but stopped (DEL-6)."""
        self._stopped[self.call_id] = record

    def charge(self, usage: UsageDelta) -> None:
        """Add to what this call spent on models; it counts to the run (DEL-1)."""
        self.usage += usage


def current_call() -> ToolCall | None:
    """Give the tool call that this code is part of; None outside tools."""
    ambient = current_ambient()
    return None if ambient is None else ambient.call


def charged(outcome: ToolOutcome) -> ToolOutcome:
    """Give the outcome of the current call together with what the call spent.

    The kernel does this to every outcome; who keeps outcomes below it (a journal) does it before keeping them.
    """
    call = current_call()
    if call is None or call.usage is NO_USAGE or outcome.usage:
        return outcome
    return replace(outcome, usage=call.usage)
