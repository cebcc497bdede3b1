"""Cancelling with real workers: from a client, from Celery's revoke, from a run's later tasks."""

from collections.abc import Callable

import pytest
import redis
from fleet.conftest import PLAN, StartWorker, call, steps
from fleet.helpers import check_stream
from support.waiting import always, eventually

from turnfleet import Approve, Fleet, Run, RunCancelled
from turnfleet.wire.connecting import producer_app
from turnfleet_kernel import PlanLimits

Marks = Callable[[str], list[str]]


def ended_as_cancelled(run: "Run[object]") -> None:
    """Assert how a cancelled run is seen: by its result, its state, and its stream."""
    eventually(lambda: run.status().state != "paused")
    with pytest.raises(RunCancelled):
        run.result(timeout=60)
    assert run.status().state == "cancelled"
    events = list(run.events(timeout=60))
    check_stream(events)
    assert events[-1].kind == "cancelled"


def test_revoke_and_terminate_cancel_a_run_wherever_it_stands(
    fleet: Fleet, start_worker: StartWorker, client: redis.Redis, fleet_name: str, redis_url: str, marks: Marks
) -> None:
    """By the run's id, as Flower's buttons do: at work, queued behind it, paused, and at work again as `run:2`."""
    start_worker(concurrency=2)
    gate = f"gate:{fleet_name}"
    waits = [call("wait_for", key=gate)]
    resumed = fleet.enqueue(PLAN, steps([call("refund", order_id="1", amount=60)], waits, "never"))
    paused = fleet.enqueue(PLAN, steps([call("refund", order_id="2", amount=60)], "never"))
    eventually(lambda: {run.status().state for run in (resumed, paused)} == {"paused"})
    (waiting,) = resumed.interrupts()
    resumed.resume({waiting.id: Approve()}, by="alice", roles=("finance",))
    working = fleet.enqueue(PLAN, steps(waits, "never"))
    eventually(lambda: len(marks("wait_for:")) == 2)
    queued = fleet.enqueue(PLAN, steps([call("note", text="x")], "never"))
    control = producer_app(redis_url, fleet_name).control
    control.revoke(queued.run_id)
    ended_as_cancelled(queued)
    control.revoke(paused.run_id, terminate=True)
    ended_as_cancelled(paused)
    control.revoke(resumed.run_id, terminate=True)
    ended_as_cancelled(resumed)
    control.terminate(working.run_id)
    ended_as_cancelled(working)
    client.rpush(gate, "open")
    # Nothing of them goes on, and the worker is as well as ever.
    last = fleet.enqueue(PLAN, steps([call("note", text="y")], "still here"))
    assert last.result(timeout=60).text == "still here"
    assert [mark.split(":")[1] for mark in marks("note:")] == [last.run_id]


def test_no_tool_starts_after_a_cancel_was_accepted(fleet: Fleet, start_worker: StartWorker, marks: Marks) -> None:
    """Runs that do nothing but call tools are cut off at different moments: from then on, not one mark more."""
    start_worker(concurrency=30)
    busy = steps(*([[call("note", text="x")]] * 500), "never")
    runs = [
        fleet.enqueue(PLAN.model_copy(update={"limits": PlanLimits(max_model_rounds=600)}), busy) for _ in range(20)
    ]
    eventually(lambda: len(marks("note:")) > 40)
    for run in runs:
        assert run.cancel("enough")
    # A mark is left a moment after its call started: what is on its way arrives before the run's end does.
    for run in runs:
        ended_as_cancelled(run)
    count = len(marks("note:"))
    always(lambda: len(marks("note:")) == count, 1)
    for run in runs:
        called = {event.call_id for event in run.events(timeout=60) if event.kind == "tool_call"}
        assert len(marks(f"note:{run.run_id}:")) <= len(called)
