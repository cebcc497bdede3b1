"""Following a run's events without input or output: replay the log, follow the channel, know when it is over.

The log is the truth and the channel only says that something is new. What comes over the channel is used as it is
when it follows on; anything else (a gap, a fresh subscription, silence for a while) is settled by reading the log.
A PUBLISH that is lost so costs one poll, never an event.
"""

import json
import time
from collections.abc import Generator, Iterable, Iterator
from typing import Any, Final, Literal, TypeAlias, TypeVar

from turnfleet.client.given import check_reading, check_timeout
from turnfleet.client.outage import ask
from turnfleet.client.setup import Setup
from turnfleet.client.steps import Emit, Execute, Listen
from turnfleet.errors import EventsLost
from turnfleet.store import commands
from turnfleet.store.records import Snapshot
from turnfleet.store.transitions import PAUSED, TERMINAL_STATES
from turnfleet_kernel.contracts.events import PAUSE_KINDS, TERMINAL_KINDS, KernelEvent
from turnfleet_kernel.contracts.json import event_from_json

T = TypeVar("T")

Until: TypeAlias = Literal["terminal", "pause"]
FollowingStep: TypeAlias = Execute[Any] | Listen | Emit[T]
Following: TypeAlias = Generator[FollowingStep[T], Any, None]
"""Steps of a reader; what it emits is a T."""

BATCHES: Final = 200
"""How many batches of events one look at the log asks for."""

_TURNING: Final = TERMINAL_KINDS | PAUSE_KINDS


class Cursor:
    """The index of the last event that a reader has had."""

    def __init__(self, after: int = -1) -> None:
        self.last = max(after, -1)

    def follow_on(self, events: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Give the events that come next, moving on with each; those had already are left out, a gap ends it."""
        for event in events:
            if event["index"] == self.last + 1:
                self.last += 1
                yield event


def read_message(message: bytes | None) -> list[dict[str, Any]] | None:
    """Return the events of a channel's message; None when it is no batch of events, and so a reason to look."""
    try:
        batch = json.loads(message or b"")
        return batch if batch and all(isinstance(event["index"], int) for event in batch) else None
    except (ValueError, TypeError, KeyError):
        return None


def follow_events(
    setup: Setup, run_id: str, *, after: int = -1, until: Until = "terminal", timeout: float | None = None
) -> Following[KernelEvent]:
    """Emit a run's events with an index above `after`, each once, in order, until the run is over.

    It is over when its state is terminal (`until="pause"`: or paused) and every event was emitted. A terminal event
    alone does not end it: a failed run may be retried and go on. `timeout`: seconds without an event; then
    TimeoutError, or `FleetUnavailable` if the store is away by then (see `outage.ask`). Raises `UnknownRun`,
    `EventsTrimmed` when the next event has left the log, and `EventsLost` when the log ends before `after`.
    """
    check_reading(after, until, timeout)
    ends = TERMINAL_STATES | {PAUSED} if until == "pause" else TERMINAL_STATES
    cursor = Cursor(after)
    heard = time.monotonic()
    while True:
        look = commands.read_events(setup.keys, run_id, after=cursor.last, count=BATCHES)
        page = yield from ask(setup, look, until=None if timeout is None else heard + timeout)
        if cursor.last >= page.next_index:
            # Waiting until the log is as long again would pass over what then stands there instead.
            raise EventsLost(run_id, cursor.last, page.next_index)
        for event in cursor.follow_on(page.events):
            yield Emit(event_from_json(event))
            heard = time.monotonic()
        if cursor.last + 1 < page.next_index:
            continue
        if page.state in ends:
            return
        look_again = False
        while not look_again:
            wait = setup.poll_interval
            if timeout is not None:
                wait = min(wait, heard + timeout - time.monotonic())
                if wait <= 0:
                    raise TimeoutError(f"run {run_id!r}: no event for {timeout} seconds; it is {page.state}")
            events = read_message((yield Listen(wait))) or []
            for event in cursor.follow_on(events):
                yield Emit(event_from_json(event))
                heard = time.monotonic()
            # Silence, a fresh subscription, a gap, or what may be the end: the log says what is true.
            look_again = not events or events[-1]["index"] > cursor.last or events[-1]["kind"] in _TURNING


def follow_to_end(setup: Setup, run_id: str, *, timeout: float | None = None) -> Following[Snapshot]:
    """Emit the run's snapshot once it ended or paused, then end.

    `timeout`: seconds in all; then TimeoutError, or `FleetUnavailable` if the store is away by then (see `outage.ask`).
    Raises `UnknownRun`.
    """
    check_timeout(timeout)
    started = time.monotonic()
    ends = None if timeout is None else started + timeout
    while True:
        snapshot = yield from ask(setup, commands.outcome(setup.keys, run_id), until=ends)
        if snapshot.state in TERMINAL_STATES or snapshot.state == PAUSED:
            yield Emit(snapshot)
            return
        looked = time.monotonic()
        while True:
            now = time.monotonic()
            wait = looked + setup.poll_interval - now
            if ends is not None:
                if ends <= now:
                    raise TimeoutError(f"run {run_id!r} has no result after {timeout} seconds; it is {snapshot.state}")
                wait = min(wait, ends - now)
            if wait <= 0:
                break
            events = read_message((yield Listen(wait)))
            if events is None or any(event["kind"] in _TURNING for event in events):
                break
