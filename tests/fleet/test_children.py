"""A worker is killed while a delegated run is at work: the child goes on from where it stood (DEL-6, DESIGN 2)."""

from collections.abc import Callable

import redis
from fleet.conftest import PLAN, SHORT_LEASE, StartWorker, call, steps
from fleet.helpers import check_stream
from support.waiting import eventually

from turnfleet import Approve, Fleet, Retry

Marks = Callable[[str], list[str]]
PARENT = PLAN.model_copy(update={"tools": ("note",), "delegates": ("helper",)})


def test_a_child_survives_its_worker(
    fleet: Fleet, start_worker: StartWorker, client: redis.Redis, fleet_name: str, marks: Marks
) -> None:
    """No turn of it is bought again, no finished call made again; doubt and approval name the child."""
    gate = f"gate:{fleet_name}"
    child = steps(
        [call("note", text="x")],
        [call("wait_for", key=gate)],
        [call("refund", order_id="1", amount=60)],
        "helped",
    )
    first = start_worker("fleet.family", env=SHORT_LEASE)
    run = fleet.enqueue(PARENT, steps([call("helper", prompt=child)], "the end"))
    eventually(lambda: marks("wait_for:"))
    first.kill()
    start_worker("fleet.family", env=SHORT_LEASE)
    status = eventually(lambda: (seen := run.status()).state == "paused" and seen)
    (doubt,) = status.interrupts
    child_id = f"{run.run_id}.call-0-0"
    assert (doubt.kind, doubt.tool, doubt.id) == ("in_doubt", "wait_for", f"{child_id}:in_doubt:call-1-0")
    client.rpush(gate, "open")
    run.resume({doubt.id: Retry()}, by="alice")
    eventually(lambda: [each.kind for each in run.interrupts()] == ["approval"])
    (approval,) = run.interrupts()
    run.resume({approval.id: Approve()}, by="alice", roles=("finance",))
    assert run.result(timeout=60).text == "the end"
    check_stream(list(run.events(timeout=60)))
    assert marks("note:") == [f"note:{child_id}:call-0-0"]
    assert marks("refund:") == [f"refund:{child_id}:call-2-0:60"]
    # Four turns of the child and two of its parent, each bought once.
    assert sorted(marks("model:")) == sorted(
        [f"model:{child_id}:{number}" for number in range(4)] + [f"model:{run.run_id}:{number}" for number in range(2)]
    )
