"""Runs of one thread go one after another."""

from collections.abc import Callable

import pytest
import redis
from fleet.conftest import PLAN, StartWorker, call, steps
from fleet.helpers import celery_message, push
from support.waiting import always, eventually

from turnfleet import Fleet, RunCancelled, ThreadBusy
from turnfleet.store import Keys

Marks = Callable[[str], list[str]]


def _ascii(value: object) -> str:
    assert isinstance(value, bytes)
    return value.decode("ascii")


def ids(client: redis.Redis, fleet_name: str, run_id: str) -> dict[str, str]:
    """Give the plan id and digest that a message of this run carries."""
    record = Keys(fleet_name).record(run_id)
    plan_id, digest = (_ascii(client.hget(record, name)) for name in ("plan_id", "digest"))
    return {"plan_id": plan_id, "digest": digest}


def test_a_second_run_of_a_thread_waits_for_the_first(
    fleet: Fleet, start_worker: StartWorker, client: redis.Redis, fleet_name: str, marks: Marks
) -> None:
    """`enqueue`, the default: it starts when the first has ended, though slots are free; other threads go on."""
    # The sweep must not be what helps here: the first run's worker passes the turn on.
    start_worker(env={"PLANNED_REOFFER": "3600"})
    gate = f"gate:{fleet_name}"
    first = fleet.enqueue(PLAN, steps([call("wait_for", key=gate)], "first"), thread_id="t1", run_id="first")
    eventually(lambda: marks("wait_for:"))
    second = fleet.enqueue(PLAN, steps("second"), thread_id="t1", run_id="second")
    assert fleet.enqueue(PLAN, steps("other"), thread_id="t2").result(timeout=60).text == "other"
    # Even a message that comes too early finds that it is not its turn.
    queue = f"turnfleet.{fleet_name}"
    early = {
        "v": 1,
        "fleet": fleet_name,
        "run_id": "second",
        "recorded": True,
        **ids(client, fleet_name, "second"),
        "options": {"thread_id": "t1"},
    }
    push(client, queue, celery_message("second", {"envelope": early}, queue=queue))
    eventually(lambda: client.llen(queue) == 0)
    always(lambda: second.status().state == "queued" and not marks("model:second"), 1.0)
    client.rpush(gate, "open")
    assert first.result(timeout=60).text == "first"
    assert second.result(timeout=60).text == "second"


def test_a_busy_thread_can_refuse_or_interrupt(
    fleet: Fleet, start_worker: StartWorker, fleet_name: str, marks: Marks
) -> None:
    """`reject` names the run in front and leaves nothing behind; `interrupt` cancels it and goes next."""
    start_worker()
    first = fleet.enqueue(
        PLAN, steps([call("wait_for", key=f"never:{fleet_name}")], "no"), thread_id="t", run_id="slow"
    )
    eventually(lambda: marks("wait_for:"))
    with pytest.raises(ThreadBusy, match="slow"):
        fleet.enqueue(PLAN, steps("x"), thread_id="t", double_text="reject")
    assert [status.run_id for status in fleet.runs()] == ["slow"]
    next_one = fleet.enqueue(PLAN, steps("next"), thread_id="t", double_text="interrupt")
    with pytest.raises(RunCancelled):
        first.result(timeout=60)
    assert next_one.result(timeout=60).text == "next"
