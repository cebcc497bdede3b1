"""What a real Flower shows of runs."""

from collections.abc import Iterator

import pytest
from fleet.conftest import PLAN, StartWorker, call, steps
from support.flower_process import FlowerProcess
from support.waiting import eventually

from turnfleet import Approve, Fleet, Run, RunFailed, RunPaused


@pytest.fixture
def flower(redis_url: str, fleet_name: str) -> Iterator[FlowerProcess]:
    """Give a Flower that watches this test's fleet."""
    env = {"TURNFLEET_REDIS_URL": redis_url, "TURNFLEET_NAME": fleet_name}
    with FlowerProcess("fleet.planned", env=env) as process:
        yield process


def pause_and_approve(fleet: Fleet, *after: object) -> Run[object]:
    """Enqueue a run that pauses, and let a person approve."""
    run: Run[object] = fleet.enqueue(PLAN, steps([call("refund", order_id="1", amount=60)], *after))
    with pytest.raises(RunPaused):
        run.result(timeout=30)
    (waiting,) = run.interrupts()
    run.resume({waiting.id: Approve()}, by="alice", roles=("finance",))
    return run


def states(flower: FlowerProcess, run_id: str) -> dict[str, str]:
    """Give the states of the tasks that Flower finds by a run's id."""
    return {task_id: task["state"] for task_id, task in flower.find(run_id).items()}


def test_paused_then_done_and_paused_then_failed_show_their_final_states(
    fleet: Fleet, start_worker: StartWorker, flower: FlowerProcess
) -> None:
    """Each is found by its run id: the paused part as a success that says paused, the last part as what it was."""
    start_worker()
    done = pause_and_approve(fleet, "over")
    done.result(timeout=30)
    failed = pause_and_approve(fleet, {"fail": "the provider is down"})
    with pytest.raises(RunFailed):
        failed.result(timeout=30)
    eventually(
        lambda: states(flower, done.run_id) == {done.run_id: "SUCCESS", f"{done.run_id}:2": "SUCCESS"},
        what=f"the run that was done in {states(flower, done.run_id)}",
    )
    eventually(
        lambda: states(flower, failed.run_id) == {failed.run_id: "SUCCESS", f"{failed.run_id}:2": "FAILURE"},
        what="the run that failed",
    )
    paused = flower.find(done.run_id)[done.run_id]
    assert "'state': 'paused'" in paused["result"]
    assert "approval:call-0-0" in paused["result"]
    ended = flower.find(failed.run_id)[f"{failed.run_id}:2"]
    assert "the provider is down" in ended["exception"]
    assert ended["root_id"] == failed.run_id
    # Neither the prompt nor a tool's arguments are shown (DESIGN 7).
    for task in (*flower.find(done.run_id).values(), *flower.find(failed.run_id).values()):
        assert "order_id" not in str(task)
