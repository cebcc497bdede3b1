"""What a real Flower shows of runs, over its API."""

import uuid
from collections.abc import Iterator
from urllib.error import HTTPError

import pytest
from fleet.conftest import PLAN, call, steps
from fleet.helpers import celery_message, push
from fleet.watched import SHOWS_CONTENT, Watched, watch
from support.redis_server import RedisServer
from support.waiting import eventually
from support.worker_process import WorkerProcess

from turnfleet import PlanSpec, RunCancelled, RunFailed


@pytest.fixture(scope="module")
def watched(redis_server: RedisServer) -> Iterator[Watched]:
    """Give a fleet that Flower watches."""
    with watch(redis_server, "flower") as fleet:
        yield fleet


@pytest.fixture
def run_id() -> str:
    """Give an id that no other test uses."""
    return f"run-{uuid.uuid4().hex[:12]}"


def names(task: dict[str, str]) -> tuple[str, str]:
    """Give what a task's line shows."""
    return task["name"], task["kwargs"]


def test_who_does_not_know_the_password_sees_nothing(watched: Watched) -> None:
    """401 without and with a wrong one, on reading and on control; 200 with it."""
    for login in (None, "operator:guess"):
        with pytest.raises(HTTPError) as refused:
            watched.flower.get("/api/tasks", login=login)
        refused.value.close()
        assert refused.value.code == 401
    assert isinstance(watched.flower.get("/api/tasks"), dict)


def test_each_turn_of_a_run_is_found_by_the_runs_id_and_says_plan_and_turn(watched: Watched, run_id: str) -> None:
    """A run that paused and went on is two tasks: the first says what it waits for, the second that it completed."""
    run = watched.paused(run_id, "over")
    first = watched.task(run_id, "SUCCESS")
    assert names(first) == ("planned (turn 1)", repr({"plan": "planned", "turn": 1, "run_id": run_id}))
    asked = {"id": "approval:call-0-0", "kind": "approval", "tool": "refund"}
    assert first["result"] == repr({"state": "paused", "interrupts": [asked], "run_id": run_id})
    watched.approve(run)
    assert run.result(timeout=60).text == "over"
    second = watched.task(f"{run_id}:2", "SUCCESS")
    assert names(second) == ("planned (turn 2)", repr({"plan": "planned", "turn": 2, "run_id": run_id}))
    assert second["result"] == repr({"state": "completed", "run_id": run_id})
    assert second["root_id"] == run_id
    assert watched.flower.states(run_id) == {run_id: "SUCCESS", f"{run_id}:2": "SUCCESS"}
    # Neither the prompt nor a tool's arguments are shown (DESIGN 7).
    assert "1001" not in str(watched.flower.find(run_id))


def test_a_run_that_failed_is_a_failure_with_its_traceback(watched: Watched, run_id: str) -> None:
    """Also after a pause: the paused turn stays finished, the last one failed."""
    run = watched.paused(run_id, {"fail": "the provider is down"})
    watched.approve(run)
    with pytest.raises(RunFailed):
        run.result(timeout=60)
    task = watched.task(f"{run_id}:2", "FAILURE")
    assert "the provider is down" in task["exception"]
    # From the first line that is the user's own on: what turnfleet did before is of no interest.
    assert task["traceback"].splitlines()[0] == "Traceback (most recent call last):"
    assert "planned.py" in task["traceback"].splitlines()[1]
    assert watched.flower.states(run_id)[run_id] == "SUCCESS"


def test_a_run_that_was_cancelled_at_work_is_revoked(watched: Watched, run_id: str) -> None:
    """By a client, by Flower's terminate or its revoke: never a success, and the run is cancelled."""
    runs = [watched.held(f"{run_id}.{by}", "never") for by in ("client", "terminate", "revoke")]
    assert runs[0].cancel("enough")
    watched.flower.post(f"/api/task/revoke/{runs[1].run_id}", terminate="true")
    watched.flower.post(f"/api/task/revoke/{runs[2].run_id}")
    for run in runs:
        assert watched.task(run.run_id, "REVOKED")["result"] is None
        with pytest.raises(RunCancelled):
            run.result(timeout=60)


def test_a_run_that_was_cancelled_while_it_waited_is_revoked(watched: Watched, run_id: str) -> None:
    """In the queue, by a client or by Flower's revoke: its message finds nothing to do, and says why."""
    waiting = [watched.fleet.enqueue(PLAN, steps("never"), run_id=f"{run_id}.{by}", countdown=3600) for by in "cr"]
    assert waiting[0].cancel("enough")
    watched.flower.post(f"/api/task/revoke/{run_id}.r")
    eventually(lambda: [run.status().state for run in waiting] == ["cancelled", "cancelled"])
    # A run that is not due has no message yet: one is pushed, as a client that published too early would.
    for run in waiting:
        envelope = {"v": 1, "fleet": watched.name, "run_id": run.run_id, "plan": PLAN.model_dump(mode="json")}
        envelope["request"] = {"prompt": steps("never")}
        push(watched.plain, watched.queue, celery_message(run.run_id, {"envelope": envelope}, queue=watched.queue))
        watched.task(run.run_id, "REVOKED")


def test_revoke_cancels_a_run_that_waits_for_a_person(watched: Watched, run_id: str) -> None:
    """Its task is long over, and stays the finished turn that it was; the run itself is cancelled."""
    run = watched.paused(run_id, "never")
    watched.flower.post(f"/api/task/revoke/{run_id}")
    eventually(lambda: run.status().state == "cancelled")
    watched.task(run_id, "SUCCESS")
    assert list(watched.flower.states(run_id)) == [run_id]


def test_a_duplicate_is_rejected_and_harms_no_other_task(watched: Watched, run_id: str) -> None:
    """A second message finds nothing to claim: no success of its own, and the first one's is what it was."""
    run = watched.fleet.enqueue(PLAN, steps("over"), run_id=run_id)
    run.result(timeout=60)
    before = watched.task(run_id, "SUCCESS")
    envelope = {"v": 1, "fleet": watched.name, "run_id": run_id, "plan": PLAN.model_dump(mode="json")}
    envelope["request"] = {"prompt": steps("over")}
    for task_id in (run_id, f"{run_id}:2"):
        message = celery_message(task_id, {"envelope": envelope}, queue=watched.queue, root_id=run_id)
        push(watched.plain, watched.queue, message)
    duplicate = watched.task(f"{run_id}:2", "REJECTED")
    assert (duplicate["started"], duplicate["result"]) == (None, None)
    after = eventually(lambda: (task := watched.flower.find(run_id)[run_id])["rejected"] and task)
    unchanged = ("state", "result", "received", "started", "succeeded", "name", "kwargs")
    assert {name: after[name] for name in unchanged} == {name: before[name] for name in unchanged}


def test_a_foreign_clients_message_shows_names_and_not_its_arguments(watched: Watched, run_id: str) -> None:
    """Its library writes a repr of everything into the headers, and it may name the task as it likes."""
    envelope = {"v": 1, "fleet": watched.name, "run_id": run_id, "plan": PLAN.model_dump(mode="json")}
    envelope["request"] = {"prompt": steps("over")}
    message = celery_message(f"task-{run_id}", {"envelope": envelope}, queue=watched.queue)
    message["headers"] |= {"kwargsrepr": repr({"envelope": envelope}), "shadow": "my secret prompt"}
    push(watched.plain, watched.queue, message)
    task = watched.task(f"task-{run_id}", "SUCCESS")
    assert names(task) == ("planned (turn 1)", repr({"plan": "planned", "turn": 1, "run_id": run_id}))
    assert "over" not in str(task)
    assert "secret" not in str(task)


def test_a_plans_name_is_shown_in_plain_characters_and_the_first_eighty(watched: Watched, run_id: str) -> None:
    """Names are a user's data: no quote, line or page is broken by one."""
    plan = PlanSpec(name=f"ask 'em\n<b>{'x' * 100}", model="planned")
    watched.fleet.enqueue(plan, steps("over"), run_id=run_id).result(timeout=60)
    shown = f"ask ?em??b?{'x' * 69}"
    assert names(watched.task(run_id, "SUCCESS")) == (
        f"{shown} (turn 1)",
        repr({"plan": shown, "turn": 1, "run_id": run_id}),
    )


@pytest.mark.slow
def test_the_task_of_a_killed_worker_is_retried_and_says_under_which_the_run_goes_on(
    watched: Watched, run_id: str
) -> None:
    """By whoever takes the run back: the dead cannot say it, and their task would be at work for ever."""
    queue = f"doomed-{run_id}"
    doomed, heir = (WorkerProcess("fleet.planned", env=watched.worker._env, options=["-Q", queue]) for _ in range(2))
    with doomed:
        watched.held(run_id, "never", queue=queue)
        watched.task(run_id, "STARTED")
        doomed.kill()
    lost = watched.task(run_id, "RETRY")
    assert lost["exception"].endswith(f" was lost; the run goes on as {run_id}:2")
    assert names(lost) == ("planned (turn 1)", repr({"plan": "planned", "turn": 1, "run_id": run_id}))
    with heir:
        waiting = watched.task(f"{run_id}:2", "SUCCESS")
    assert "in_doubt" in waiting["result"]
    assert watched.flower.states(run_id) == {run_id: "RETRY", f"{run_id}:2": "SUCCESS"}


@pytest.mark.slow
def test_content_is_shown_where_it_was_asked_for(watched: Watched, run_id: str) -> None:
    """`WorkerSettings(show_content=True)`: the prompt, what waits for a decision, and the answer."""
    env = {**watched.worker._env, "PLANNED_SHOW_CONTENT": "1"}
    with WorkerProcess("fleet.planned", env=env, options=["-Q", SHOWS_CONTENT]):
        run = watched.paused(run_id, "over and out", queue=SHOWS_CONTENT)
        first = watched.task(run_id, "SUCCESS")
        assert '"name": "refund"' in first["kwargs"]
        assert '"order_id": "1001"' in first["result"]
        watched.approve(run)
        assert "'answer': 'over and out'" in watched.task(f"{run_id}:2", "SUCCESS")["result"]


def test_arguments_of_a_run_at_work_are_not_shown(watched: Watched, run_id: str) -> None:
    """Flower asks workers for their active tasks, too (DESIGN 7)."""
    run = watched.held(run_id, [call("refund", order_id="1001", amount=1)], "over")
    active = str(eventually(lambda: watched.told("active")))
    assert run_id in active
    assert "order_id" not in active
    watched.plain.rpush(watched.gate, "open")
    run.result(timeout=60)
    watched.plain.delete(watched.gate)
