"""What a fleet says about its runs, as users read it: frozen values, times as aware UTC datetimes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar, cast, overload

from turnfleet.interrupt import RunInterrupt
from turnfleet.store.records import InboxEntry, Snapshot, StoredInterrupt
from turnfleet.store.transitions import TERMINAL_STATES, RunState
from turnfleet_kernel.contracts.interrupts import InterruptKind
from turnfleet_kernel.contracts.json import decision_from_json, usage_from_json
from turnfleet_kernel.contracts.values import UsageDelta

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """What a run is at one moment.

    `attempts` counts its claims by workers, `losses` the workers lost in a row. `interrupts` are the open ones, none
    once the run has ended; `decided` are the decided ones. `error` is the text of a failure, `cancel_reason` that of a
    cancel that was asked for. `missing` (kind to names) and `parked_because` say what a parked run waits for.
    `running_seconds` leaves queues and pauses out. `next_index` is the index that its next event will have.
    """

    run_id: str
    state: RunState
    plan_id: str
    plan_name: str
    queue: str
    priority: int
    thread_id: str | None
    tenant: str | None
    metadata: Mapping[str, Any]
    attempts: int
    losses: int
    worker: str | None
    created_at: datetime
    started_at: datetime | None
    changed_at: datetime
    ended_at: datetime | None
    eta: datetime | None
    expires_at: datetime | None
    deadline_seconds: float | None
    running_seconds: float
    interrupts: tuple[RunInterrupt, ...]
    decided: tuple[RunInterrupt, ...]
    usage: UsageDelta | None
    error: str | None
    cancel_reason: str | None
    missing: Mapping[str, tuple[str, ...]]
    parked_because: str | None
    next_index: int

    @property
    def ended(self) -> bool:
        """Whether the run is completed, failed, cancelled or expired."""
        return self.state in TERMINAL_STATES


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some of many, newest first. `cursor` goes into the next call; None says that this was the last page."""

    items: tuple[T, ...]
    cursor: str | None

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[T, ...]: ...
    def __getitem__(self, place: int | slice) -> T | tuple[T, ...]:
        return self.items[place]


def read_status(snapshot: Snapshot) -> RunStatus:
    """Return what a user sees of a snapshot."""
    interrupts = [_read_interrupt(snapshot.run_id, snapshot.plan_name, each) for each in snapshot.interrupts]
    return RunStatus(
        run_id=snapshot.run_id,
        state=cast("RunState", snapshot.state),
        plan_id=snapshot.plan_id,
        plan_name=snapshot.plan_name,
        queue=snapshot.queue,
        priority=snapshot.priority,
        thread_id=snapshot.thread_id,
        tenant=snapshot.tenant,
        metadata=snapshot.metadata,
        attempts=snapshot.attempt,
        losses=snapshot.losses,
        worker=snapshot.worker,
        created_at=_moment(snapshot.created_ms),
        started_at=_maybe(snapshot.started_ms),
        changed_at=_moment(snapshot.changed_ms),
        ended_at=_maybe(snapshot.ended_ms),
        eta=_maybe(snapshot.eta_ms),
        expires_at=_maybe(snapshot.expires_ms),
        deadline_seconds=snapshot.deadline_seconds,
        running_seconds=snapshot.ran_ms / 1000,
        # What nobody decided before the end is asked of nobody any more.
        interrupts=() if snapshot.state in TERMINAL_STATES else tuple(each for each in interrupts if each.open),
        decided=tuple(each for each in interrupts if not each.open),
        usage=None if snapshot.usage is None else usage_from_json(snapshot.usage),
        error=snapshot.error,
        cancel_reason=snapshot.cancel,
        missing=snapshot.missing,
        parked_because=snapshot.parked,
        next_index=snapshot.next_index,
    )


def read_inbox(entry: InboxEntry) -> tuple[RunInterrupt, ...]:
    """Return the open interrupts of one waiting run."""
    return tuple(_read_interrupt(entry.run_id, entry.plan_name, each) for each in entry.interrupts)


def _read_interrupt(run_id: str, plan_name: str, stored: StoredInterrupt) -> RunInterrupt:
    return RunInterrupt(
        run_id=run_id,
        plan_name=plan_name,
        id=stored.id,
        kind=cast("InterruptKind", stored.kind),
        call_id=stored.call_id,
        payload=stored.payload,
        digest=stored.digest or stored.payload.get("digest"),
        roles=stored.roles,
        schema=stored.schema,
        expires_at=_maybe(stored.expires_ms),
        decision=None if stored.decision is None else decision_from_json(stored.decision),
        by=stored.by,
        decided_at=_maybe(stored.decided_ms),
    )


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _maybe(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else _moment(milliseconds)
