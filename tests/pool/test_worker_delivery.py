"""How messages become runs: through a real worker process, seen in its record and in Celery's own events."""

from collections import Counter

import pytest
from pool.bench import Bench, EventWatch
from support.waiting import always, eventually
from support.worker_process import WorkerProcess


@pytest.fixture
def floor(shared_worker: WorkerProcess, shared_bench: Bench) -> Bench:
    """Give the shared bench, with its worker at work."""
    assert shared_worker.running
    return shared_bench


def test_a_message_runs_and_is_shown_as_one_success(floor: Bench, shared_events: EventWatch, run_id: str) -> None:
    """A message reaches the host, and Flower's picture goes from received over started to SUCCESS (DESIGN 1)."""
    floor.send(run_id)
    shared_events.wait_for(run_id, "task-succeeded")
    assert shared_events.kinds(run_id) == ["task-received", "task-started", "task-succeeded"]
    assert shared_events.shown(run_id) == "SUCCESS"


def test_twenty_deliveries_of_one_id_show_one_start_and_one_success(
    floor: Bench, shared_events: EventWatch, run_id: str
) -> None:
    """Duplicates find nothing to claim and end as Ignore: acknowledged, no start, no success, no failure (DESIGN 1)."""
    for _ in range(20):
        floor.send(run_id, seconds=0.5)
    floor.wait_for("seen", 20, run=run_id)
    shared_events.wait_for(run_id, "task-succeeded")
    shared_events.wait_for(run_id, "task-rejected", 19)
    assert floor.waiting() + floor.unacked() == 0
    kinds = Counter(shared_events.kinds(run_id))
    assert kinds == {"task-received": 1, "task-rejected": 19, "task-started": 1, "task-succeeded": 1}
    assert shared_events.shown(run_id) == "SUCCESS"
    assert len(floor.notes("started", run=run_id)) == 1


def test_a_message_is_acknowledged_when_it_is_accepted_and_not_before(
    floor: Bench, shared_events: EventWatch, run_id: str
) -> None:
    """The broker holds the message as undelivered until the claim, and not while the run runs (DESIGN 1)."""
    floor.send(run_id, claim_gate=f"{run_id}.claim", gate=run_id)
    floor.wait_for("seen", run=run_id)
    assert floor.unacked() == 1
    assert shared_events.count(run_id, "task-started") == 0
    floor.open(f"{run_id}.claim")
    floor.wait_for("started", run=run_id)
    eventually(lambda: floor.unacked() == 0)
    shared_events.wait_for(run_id, "task-started")
    assert floor.notes("ended", run=run_id) == []
    floor.open(run_id)


def test_a_process_takes_no_more_messages_than_it_has_slots(bench: Bench) -> None:
    """Of 2,000 slow runs, `-c 2` takes two; the rest stays in the broker, for any other worker (DESIGN 1)."""
    with bench.celery.producer_pool.acquire(block=True) as producer:
        for number in range(2_000):
            bench.publish({"envelope": {"run_id": f"r{number}", "seconds": 60}}, f"r{number}", producer=producer)
    with bench.worker(concurrency=2, DRAIN="0"):
        bench.wait_for("started", 2)
        always(lambda: bench.waiting() == 1_998 and len(bench.notes("seen")) == 2, 1.5)


def test_a_slot_that_becomes_free_is_used_at_once(floor: Bench, run_id: str) -> None:
    """Twelve runs of 0.1 seconds through two slots all end, never more than two at a time."""
    runs = [f"{run_id}.{number}" for number in range(12)]
    for run in runs:
        floor.send(run, seconds=0.1)
    eventually(lambda: {note["run"] for note in floor.notes("ended")} >= set(runs))
    running = 0
    for note in floor.notes():
        running += {"started": 1, "ended": -1}.get(note["what"], 0) if note.get("run") in runs else 0
        assert running <= 2


def test_what_the_host_returns_is_shown_as_the_result(floor: Bench, shared_events: EventWatch, run_id: str) -> None:
    """A run that paused is a SUCCESS for Celery, with `{'state': 'paused', ...}` as its result (DESIGN 7)."""
    floor.send(run_id, state="paused")
    shared_events.wait_for(run_id, "task-succeeded")
    assert shared_events.state.tasks[run_id].result == f"{{'state': 'paused', 'run_id': '{run_id}'}}"


def test_a_failure_is_shown_with_its_traceback(floor: Bench, shared_events: EventWatch, run_id: str) -> None:
    """An exception from the host is FAILURE, and nothing of its message is left in the broker."""
    floor.send(run_id, ending="raise")
    shared_events.wait_for(run_id, "task-failed")
    failed = shared_events.state.tasks[run_id]
    assert (failed.state, failed.exception) == ("FAILURE", "ValueError('the model went home')")
    assert "in work" in failed.traceback
    assert floor.unacked() == 0


def test_a_run_that_calls_sys_exit_ends_itself_alone(
    floor: Bench, shared_worker: WorkerProcess, shared_events: EventWatch, run_id: str
) -> None:
    """SystemExit leaves neither the event loop nor the consumer: a FAILURE, and the neighbour runs on."""
    floor.send(f"{run_id}.neighbour", gate=run_id)
    floor.wait_for("started", run=f"{run_id}.neighbour")
    floor.send(run_id, ending="exit")
    shared_events.wait_for(run_id, "task-failed")
    floor.open(run_id)
    shared_events.wait_for(f"{run_id}.neighbour", "task-succeeded")
    assert "must not end the process" in shared_events.state.tasks[run_id].exception
    assert shared_worker.running


def test_an_ignored_message_is_acknowledged_without_start_or_end(
    floor: Bench, shared_events: EventWatch, run_id: str
) -> None:
    """A host that finds nothing to do raises Ignore: the message is gone, and Flower shows it as rejected."""
    floor.send(run_id, claim=False, ending="ignore")
    floor.wait_for("started", run=run_id)
    eventually(lambda: floor.waiting() + floor.unacked() == 0)
    shared_events.wait_for(run_id, "task-rejected")
    floor.send(f"{run_id}.next")
    shared_events.wait_for(f"{run_id}.next", "task-succeeded")
    assert shared_events.kinds(run_id) == ["task-rejected"]
    assert shared_events.shown(run_id) == "REJECTED"


def test_a_run_that_was_lost_at_work_is_shown_as_to_be_retried(
    floor: Bench, shared_events: EventWatch, run_id: str
) -> None:
    """A host that finds its claim gone raises Ignore after the accept: no success, and no start that never ends."""
    floor.send(run_id, ending="ignore", gate=run_id)
    # In Celery's picture a client's task-sent that comes after a task-retried makes the task PENDING again.
    eventually(lambda: any((e["type"], e.get("uuid")) == ("task-sent", run_id) for e in list(shared_events.log)))
    floor.open(run_id)
    shared_events.wait_for(run_id, "task-retried")
    assert shared_events.kinds(run_id) == ["task-received", "task-started", "task-retried"]
    assert shared_events.shown(run_id) == "RETRY"


def test_a_failure_before_the_accept_is_acknowledged_too(floor: Bench, shared_events: EventWatch, run_id: str) -> None:
    """As Celery does for any failed task: the message is not delivered again and again."""
    floor.send(run_id, claim=False, ending="raise")
    shared_events.wait_for(run_id, "task-failed")
    assert floor.waiting() + floor.unacked() == 0


def test_a_rejected_message_is_gone_or_comes_again_as_the_host_says(
    floor: Bench, shared_events: EventWatch, run_id: str
) -> None:
    """`Reject(requeue=True)` before the accept puts the message back; without requeue it is a failure and gone."""
    floor.send(run_id, ending="requeue")
    shared_events.wait_for(run_id, "task-succeeded")
    assert [note["redelivered"] for note in floor.notes("started", run=run_id)] == [True]
    floor.send(f"{run_id}.gone", claim=False, ending="reject")
    shared_events.wait_for(f"{run_id}.gone", "task-failed")
    assert floor.waiting() + floor.unacked() == 0


def test_the_host_hears_whose_message_it_is(floor: Bench, run_id: str) -> None:
    """The second message of a run has an id of its own and the run's id as root (DESIGN 7)."""
    floor.publish({"envelope": {"run_id": run_id}}, f"{run_id}:2", root_id=run_id)
    (started,) = floor.wait_for("started", run=run_id)
    assert started["root"] == run_id
    assert [note["task"] for note in floor.notes("seen", run=run_id)] == [f"{run_id}:2"]


def test_arguments_are_seen_by_nobody_but_the_host(
    floor: Bench, shared_worker: WorkerProcess, shared_events: EventWatch, run_id: str
) -> None:
    """A foreign client writes a repr of its arguments into the message; we show none of it (DESIGN 7)."""
    floor.send(run_id, prompt="my secret", gate=run_id)
    floor.wait_for("started", run=run_id)
    inspected = floor.inspect(shared_worker)
    active, details = eventually(inspected.active), eventually(lambda: inspected.query_task(run_id))
    floor.open(run_id)
    shared_events.wait_for(run_id, "task-succeeded")
    ours = [event for event in shared_events.log if event["type"] != "task-sent"]  # that one is the client's own
    assert run_id in [request["id"] for request in active[shared_worker.hostname]]
    assert "my secret" not in repr(active) + repr(details) + repr(ours) + shared_worker.log


def test_prerun_and_postrun_frame_each_run(floor: Bench, shared_worker: WorkerProcess, run_id: str) -> None:
    """Libraries that hook into Celery hear of the start when it starts, and of the end when it ends."""
    floor.send(run_id, gate=run_id)
    floor.wait_for("started", run=run_id)
    eventually(lambda: f"prerun {run_id}" in shared_worker.log)
    assert f"postrun {run_id}" not in shared_worker.log
    floor.open(run_id)
    shared_worker.wait_for_log(f"postrun {run_id} SUCCESS")


def test_a_users_own_task_runs_beside_the_runs(floor: Bench, shared_events: EventWatch, run_id: str) -> None:
    """A plain function on the same app runs in a thread, with Celery's own events."""
    floor.celery.send_task("plain.add", (1, 2), task_id=run_id, queue=floor.queue)
    shared_events.wait_for(run_id, "task-succeeded")
    assert shared_events.kinds(run_id) == ["task-received", "task-started", "task-succeeded"]
    assert shared_events.state.tasks[run_id].result == "3"
