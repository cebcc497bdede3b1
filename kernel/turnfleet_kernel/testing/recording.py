"""A sink that remembers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turnfleet_kernel.contracts.events import KernelEvent
from turnfleet_kernel.contracts.values import RunIdentity

__all__ = ["RecordingSink"]


class RecordingSink:
    """A sink that keeps what it is given; bound to each run it serves, it keeps that too."""

    def __init__(self) -> None:
        """Start empty."""
        self.events: list[KernelEvent] = []
        self.bound: list[tuple[RunIdentity, Mapping[str, Any]]] = []
        self.closed = 0

    def bind(self, identity: RunIdentity, metadata: Mapping[str, Any]) -> RecordingSink:
        """Note the run; one list serves all runs."""
        self.bound.append((identity, metadata))
        return self

    async def deliver(self, event: KernelEvent) -> None:
        """Keep the event."""
        self.events.append(event)

    async def close(self) -> None:
        """Count the runs that ended."""
        self.closed += 1

    @property
    def kinds(self) -> list[str]:
        """The kinds of all events, in order."""
        return [event.kind for event in self.events]
