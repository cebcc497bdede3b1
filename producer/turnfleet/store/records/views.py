"""What those see of a run who do not work on it."""

from dataclasses import dataclass
from typing import Any

from turnfleet.store.records.people import StoredInterrupt
from turnfleet.store.records.runs import Previous

__all__ = ["Definition", "EventsPage", "InboxEntry", "Snapshot"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything about a run that a person may see. `outcome` is set only by the `outcome` command."""

    run_id: str
    state: str
    plan_id: str
    plan_name: str
    digest: str
    queue: str
    priority: int
    thread_id: str | None
    tenant: str | None
    metadata: dict[str, Any]
    attempt: int
    losses: int
    previous: Previous
    offers: int
    offered_ms: int | None
    worker: str | None
    created_ms: int
    started_ms: int | None
    claimed_ms: int | None
    changed_ms: int
    ended_ms: int | None
    eta_ms: int | None
    expires_ms: int | None
    deadline_seconds: float | None
    ran_ms: int
    cancel: str | None
    missing: dict[str, tuple[str, ...]]
    parked: str | None
    error: str | None
    usage: dict[str, Any] | None
    next_index: int
    interrupts: tuple[StoredInterrupt, ...] = ()
    outcome: dict[str, Any] | None = None

    @property
    def position(self) -> tuple[int, str]:
        """Where the run stands in a listing: newest created first."""
        return self.created_ms, self.run_id


@dataclass(frozen=True, slots=True)
class InboxEntry:
    """A run that waits for people, with its open interrupts. `since_ms`: when it paused."""

    run_id: str
    plan_name: str
    tenant: str | None
    since_ms: int
    interrupts: tuple[StoredInterrupt, ...]

    @property
    def position(self) -> tuple[int, str]:
        """Where the run stands in the inbox: latest paused first."""
        return self.since_ms, self.run_id


@dataclass(frozen=True, slots=True)
class Definition:
    """What a run was asked to do: its plan and its request, as JSON."""

    plan: dict[str, Any]
    request: dict[str, Any]


@dataclass(frozen=True, slots=True)
class EventsPage:
    """Events of a run in order, all with an index above the one asked for. Empty: the reader is up to date.

    `first_index` is the earliest index still in the log, `next_index` the one that the next event will have.
    """

    events: tuple[dict[str, Any], ...]
    first_index: int
    next_index: int
    state: str
