"""Two fleets of different names on one Redis: nothing crosses."""

from collections.abc import Callable

import redis
from fleet.conftest import PLAN, StartWorker, call, steps
from support.waiting import eventually

from turnfleet import Fleet, PlanSpec

Marks = Callable[[str], list[str]]


def test_nothing_crosses(
    fleet: Fleet, start_worker: StartWorker, redis_url: str, fleet_name: str, client: redis.Redis
) -> None:
    """No run, event, worker entry or sweep of one fleet is seen by the other, even under the same run id."""
    other_name = f"{fleet_name}-other"
    with Fleet(redis_url, name=other_name, poll_interval=0.5) as other:
        mine = fleet.enqueue(PLAN, steps([call("note", text="mine")], "mine"), run_id="same-id")
        theirs = other.enqueue(PLAN, steps("theirs"), run_id="same-id")
        start_worker()
        assert mine.result(timeout=60).text == "mine"
        eventually(lambda: len(fleet.workers()) == 1)
        assert other.workers() == ()
        # The worker of one fleet sweeps all the time and never takes up the other's run.
        assert theirs.status().state == "queued"
        assert other.enqueue(PlanSpec(name="p", model="unheard of"), "x").status().state == "queued"
        start_worker(env={"TURNFLEET_NAME": other_name})
        assert theirs.result(timeout=60).text == "theirs"
        assert [event.kind for event in theirs.events(timeout=60)] == ["text_delta", "usage", "done"]
        assert {status.run_id for status in fleet.runs()} == {"same-id"}
        marks = [
            str(mark, "utf-8") if isinstance(mark, bytes) else mark
            for mark in client.lrange(f"marks:{fleet_name}", 0, -1)
        ]
        assert marks == ["model:same-id:0", "note:same-id:call-0-0", "model:same-id:1"]
