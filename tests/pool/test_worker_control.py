"""Flower's buttons and Celery's limits: grow, shrink, inspect, revoke, terminate, time limits."""

import pytest
from pool.bench import Bench, EventWatch
from support.waiting import always, eventually
from support.worker_process import WorkerProcess


@pytest.fixture
def floor(shared_worker: WorkerProcess, shared_bench: Bench) -> Bench:
    """Give the shared bench, with its worker at work."""
    assert shared_worker.running
    return shared_bench


def test_the_pool_grows_and_shrinks_while_it_runs(bench: Bench) -> None:
    """More slots take waiting messages at once; fewer let what runs run on, and take less from then on (DESIGN 6)."""
    with bench.worker(concurrency=1, DRAIN="0") as worker:
        for number in range(4):
            bench.send(f"r{number}", gate="first three" if number < 3 else "never")
        bench.wait_for("started", 1)
        always(lambda: bench.waiting() == 3, 0.5)
        bench.tell(worker).pool_grow(2)
        bench.wait_for("started", 3)
        stats = bench.stats(worker)
        assert (stats["pool"]["max-concurrency"], stats["turnfleet"]["in-flight"]) == (3, 3)
        bench.tell(worker).pool_shrink(2)
        reply = bench.tell(worker).pool_shrink(1)
        assert "keeps at least one" in str(reply)
        assert bench.stats(worker)["pool"]["max-concurrency"] == 1
        bench.open("first three")
        bench.wait_for("ended", 3)
        bench.wait_for("started", 4)


def test_inspect_stats_shows_the_load(bench: Bench) -> None:
    """In flight, waiting, limit, what was refused, and how late the loop wakes, under `pool` and `turnfleet`."""
    with bench.worker(concurrency=5, DRAIN="0") as worker:
        bench.send("r1", seconds=60)
        bench.wait_for("started")
        bench.send("r2", ending="block", seconds=1.2)
        bench.wait_for("ended", run="r2")
        eventually(lambda: bench.stats(worker)["turnfleet"]["in-flight"] == 1)
        stats = bench.stats(worker)["turnfleet"]
        assert stats.pop("worst-loop-lag-seconds") > 0.6
        assert stats.pop("loop-lag-seconds") >= 0
        assert stats == {
            "node": worker.hostname,
            "in-flight": 1,
            "waiting": 0,
            "limit": 5,
            "plain-tasks": 0,
            "draining": False,
            "refused": {},
            "host-says": "hello",
        }
        shown = bench.stats(worker)["pool"]
        # As Flower's page shows it best: no Python literals.
        assert (shown["in-flight"], shown["draining"], shown["refused"]) == (1, "False", "none")


def test_terminate_cancels_the_coroutine_of_a_running_run(floor: Bench, shared_events: EventWatch, run_id: str) -> None:
    """Flower's terminate: the host sees a cancellation that was asked for, Flower shows REVOKED (DESIGN 5)."""
    floor.send(run_id, seconds=60)
    floor.send(f"{run_id}.other", seconds=1)
    shared_events.wait_for(run_id, "task-started")
    floor.celery.control.terminate(run_id)
    (cancelled,) = floor.wait_for("cancelled", run=run_id)
    assert cancelled["asked"] is True
    shared_events.wait_for(run_id, "task-revoked")
    shared_events.wait_for(f"{run_id}.other", "task-succeeded")
    assert shared_events.shown(run_id) == "REVOKED"


def test_terminate_finds_the_run_after_a_duplicate_came_and_went(
    floor: Bench, shared_events: EventWatch, run_id: str
) -> None:
    """Celery forgets an id with the first of two messages that carry it; the run must still be found."""
    floor.send(run_id, seconds=60)
    floor.wait_for("started", run=run_id)
    floor.send(run_id, seconds=60)
    floor.wait_for("seen", 2, run=run_id)
    floor.send(f"{run_id}.next")
    shared_events.wait_for(f"{run_id}.next", "task-succeeded")
    floor.celery.control.terminate(run_id)
    floor.wait_for("cancelled", run=run_id)


def test_a_task_revoked_before_it_starts_reaches_the_host_as_cancelled(
    floor: Bench, shared_worker: WorkerProcess, shared_events: EventWatch, run_id: str
) -> None:
    """Celery would drop the message, and the sweep would offer the run again: the host must hear of it (DESIGN 5)."""
    floor.tell(shared_worker).revoke(run_id)
    floor.send(run_id)
    shared_events.wait_for(run_id, "task-revoked")
    assert [note["cancelled"] for note in floor.notes("seen", run=run_id)] == [True]
    assert floor.notes("started", run=run_id) == []
    assert shared_events.kinds(run_id) == ["task-received", "task-revoked"]
    assert floor.unacked() == 0


def test_a_soft_time_limit_ends_the_run_as_a_failure(floor: Bench, shared_events: EventWatch, run_id: str) -> None:
    """`soft_time_limit` cancels the coroutine, which may clean up; shown as SoftTimeLimitExceeded."""
    floor.publish({"envelope": {"run_id": run_id, "seconds": 60}}, run_id, soft_time_limit=0.5)
    shared_events.wait_for(run_id, "task-failed")
    assert [note["asked"] for note in floor.notes("cancelled", run=run_id)] == [False]
    assert shared_events.state.tasks[run_id].exception.startswith("SoftTimeLimitExceeded(0.5")


@pytest.mark.slow
def test_a_hard_time_limit_gives_the_slot_back_even_from_a_coroutine_that_stays(bench: Bench) -> None:
    """`time_limit` does not wait for what ignores its cancellation: TimeLimitExceeded, and the next run starts."""
    with EventWatch(bench) as events, bench.worker(concurrency=1, DRAIN="0"):
        bench.publish({"envelope": {"run_id": "r1", "ending": "stubborn"}}, "r1", time_limit=0.5)
        bench.send("r2")
        events.wait_for("r1", "task-failed")
        events.wait_for("r2", "task-succeeded")
        assert events.state.tasks["r1"].exception.startswith("TimeLimitExceeded(0.5")
        assert bench.unacked() == 0


@pytest.mark.slow
def test_where_the_broker_must_prefetch_a_process_holds_twice_its_slots(bench: Bench) -> None:
    """Without Redis' way of asking for a message only when a slot is free: concurrency and as many more (DESIGN 1)."""
    for number in range(10):
        bench.send(f"r{number}", seconds=60)
    with bench.worker(concurrency=2, PREFETCH="1", DRAIN="0") as worker:
        eventually(lambda: (bench.waiting(), bench.unacked(), len(bench.notes("started"))) == (6, 2, 2))
        always(lambda: (bench.waiting(), bench.unacked(), len(bench.notes("seen"))) == (6, 2, 2), 1)
        assert bench.stats(worker)["turnfleet"]["waiting"] == 2


@pytest.mark.slow
def test_a_message_that_waits_for_a_slot_is_terminated_without_waiting_for_one(bench: Bench) -> None:
    """With the slots taken for hours, cancelling what waits behind them takes a moment."""
    with EventWatch(bench) as events, bench.worker(concurrency=1, PREFETCH="1", DRAIN="0"):
        bench.send("r1", seconds=60)
        bench.send("r2")
        events.wait_for("r2", "task-received")
        bench.celery.control.terminate("r2")
        events.wait_for("r2", "task-revoked")
        assert [note["cancelled"] for note in bench.notes("seen", run="r2")] == [True]
        assert bench.notes("ended") == []
