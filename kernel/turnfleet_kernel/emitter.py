"""Making events: one order, no holes (EVT-2)."""

from types import MappingProxyType
from typing import Any

from turnfleet_kernel.contracts.events import EventKind, KernelEvent
from turnfleet_kernel.ports import Clock

__all__ = ["Emitter"]


class Emitter:
    """Makes a run's events, one index after the other. What is not made has no index."""

    __slots__ = ("_now", "_run_id", "next_index")

    def __init__(self, run_id: str, clock: Clock, first_index: int = 0) -> None:
        """Start at an index: 0 in a run's first invocation (EVT-2)."""
        self._run_id = run_id
        self._now = clock.now
        self.next_index = first_index

    def make(self, kind: EventKind, **payload: Any) -> KernelEvent:
        """Make the next event."""
        index = self.next_index
        self.next_index = index + 1
        return KernelEvent(self._run_id, index, kind, self._now(), MappingProxyType(payload))
