"""kill -9 of a worker process in the middle of a tool, seen from a client."""

from collections.abc import Callable

import redis
from fleet.conftest import PLAN, SHORT_LEASE, StartWorker, call, steps
from fleet.helpers import check_stream
from support.waiting import eventually

from turnfleet import Fleet, Retry

Marks = Callable[[str], list[str]]


def test_what_was_in_the_killed_workers_hands_is_asked_about(
    fleet: Fleet, start_worker: StartWorker, client: redis.Redis, fleet_name: str, marks: Marks
) -> None:
    """A finished call is not made again; the one without receipt is in doubt, and a person decides."""
    gate = f"gate:{fleet_name}"
    first = start_worker(env=SHORT_LEASE)
    run = fleet.enqueue(PLAN, steps([call("note", text="x")], [call("wait_for", key=gate)], "the end"))
    eventually(lambda: marks("wait_for:"))
    first.kill()
    start_worker(env=SHORT_LEASE)
    status = eventually(lambda: (seen := run.status()).state == "paused" and seen)
    (waiting,) = status.interrupts
    assert (waiting.kind, waiting.tool) == ("in_doubt", "wait_for")
    client.rpush(gate, "open")
    run.resume({waiting.id: Retry()}, by="alice")
    assert run.result(timeout=60).text == "the end"
    check_stream(list(run.events(timeout=60)))
    assert (len(marks("note:")), len(marks("wait_for:")), len(marks("model:"))) == (1, 2, 3)
