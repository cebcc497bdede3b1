"""Events: whoever comes early, late or twice sees the same sequence."""

import threading
from collections.abc import Callable

import redis
from fleet.conftest import PLAN, StartWorker, call, steps
from fleet.helpers import check_stream
from support.waiting import eventually

from turnfleet import Fleet, KernelEvent

Marks = Callable[[str], list[str]]


class Reader:
    """A subscriber in a thread of its own."""

    def __init__(self, fleet: Fleet, run_id: str, after: int = -1) -> None:
        """Start reading."""
        self.events: list[KernelEvent] = []
        self._run = fleet.run(run_id)
        self._after = after
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        for event in self._run.events(after=self._after, timeout=60):
            self.events.append(event)

    def finish(self) -> list[KernelEvent]:
        """Wait for the end and give everything."""
        self._thread.join(60)
        assert not self._thread.is_alive(), "the reader is stuck"
        return self.events


def test_before_during_and_after_and_again_see_the_same(
    fleet: Fleet, start_worker: StartWorker, client: redis.Redis, fleet_name: str
) -> None:
    """One sequence for all: no duplicate, no gap, and after=N goes on exactly there."""
    gate = f"gate:{fleet_name}"
    run = fleet.enqueue(PLAN, steps([call("note", text="x")], [call("wait_for", key=gate)], "and so it ends"))
    before = Reader(fleet, run.run_id)
    start_worker()
    eventually(lambda: len(before.events) >= 4)
    during = Reader(fleet, run.run_id)
    # One that leaves in the middle and comes back with the index it had.
    part = []
    for event in run.events(timeout=60):
        part.append(event)
        if len(part) == 3:
            break
    client.rpush(gate, "open")
    rest = list(run.events(after=part[-1].index, timeout=60))
    whole = before.finish()
    check_stream(whole)
    assert during.finish() == whole
    assert part + rest == whole
    assert list(run.events(timeout=60)) == whole
    assert list(run.events(after=whole[-1].index, timeout=60)) == []


def test_a_lost_publish_delays_the_end_and_never_loses_it(
    fleet: Fleet, start_worker: StartWorker, client: redis.Redis, fleet_name: str
) -> None:
    """The subscriber's connection is cut at the last event: it comes from the log."""
    gate = f"gate:{fleet_name}"
    run = fleet.enqueue(PLAN, steps([call("wait_for", key=gate)], "the end"))
    start_worker()
    reader = Reader(fleet, run.run_id)
    eventually(lambda: any(event.kind == "tool_call" for event in reader.events))
    client.rpush(gate, "open")
    while run.status().state != "completed":
        client.client_kill_filter(_type="pubsub")
    check_stream(reader.finish())


def test_readers_leave_nothing_behind(
    fleet: Fleet, start_worker: StartWorker, client: redis.Redis, fleet_name: str
) -> None:
    """When all readers have gone, no channel of the fleet's events has a subscriber."""
    start_worker()
    run = fleet.enqueue(PLAN, steps("short"))
    readers = [Reader(fleet, run.run_id) for _ in range(5)]
    for reader in readers:
        check_stream(reader.finish())
    next(iter(run.events(timeout=60)))
    pattern = f"{{{fleet_name}:*"
    eventually(lambda: client.pubsub_channels(pattern) == [])
