"""What a worker process starts with, and what it refuses: with the reason, a non-zero exit code, and no traceback."""

import pytest
from pool.bench import Bench, EventWatch
from support.waiting import eventually
from support.worker_process import START_SECONDS, WorkerProcess


def refusal(worker: WorkerProcess) -> str:
    """Start a worker that must not start, and return what it said."""
    worker.start()
    try:
        assert worker.wait(START_SECONDS) not in (0, None)
        assert "Traceback" not in worker.log
        return worker.log
    finally:
        worker.close()


@pytest.mark.parametrize(("pool", "named"), [("threads", "thread"), ("prefork", "prefork")])
def test_a_pool_that_cannot_run_coroutines_is_refused(bench: Bench, pool: str, named: str) -> None:
    """`-P threads` ends at once, and says what to use instead (DESIGN 6).

    So does `-P prefork`, although Celery's command line, whose default it is, would silently take the app's pool.
    """
    said = refusal(bench.worker("-P", pool))
    assert f"turnfleet does not run on Celery's {named} pool" in said
    assert "--pool=solo" in said


def test_a_host_that_refuses_ends_the_worker_with_its_reason(bench: Bench) -> None:
    """An error of turnfleet's own is a text for the operator."""
    assert "set it to noeviction" in refusal(bench.worker(app="pool.apps.failing", FAILS="ours"))


@pytest.mark.slow
def test_a_host_that_breaks_ends_the_worker_with_its_traceback(bench: Bench) -> None:
    """Any other error is a fault, and whoever looks for it needs the traceback."""
    worker = bench.worker(app="pool.apps.failing", FAILS="theirs")
    worker.start()
    assert worker.wait(START_SECONDS) != 0
    assert "OSError: no such store" in worker.log
    assert "Traceback" in worker.log
    worker.close()


def test_solo_runs_one_at_a_time_on_one_loop(bench: Bench) -> None:
    """`--pool=solo` works: accepted and acknowledged while it runs, one run after the other (DESIGN 6)."""
    with EventWatch(bench) as events, bench.worker("--pool=solo") as worker:
        bench.send("r1", gate="r1")
        bench.send("r2")
        bench.wait_for("started", run="r1")
        events_of_r1 = [note["what"] for note in bench.notes(run="r1")]
        eventually(lambda: bench.unacked() == 0)
        assert bench.notes("ended") == []
        bench.open("r1")
        events.wait_for("r2", "task-succeeded")
        assert events_of_r1 == ["seen", "started"]
        assert [n["run"] for n in bench.notes() if n["what"] in {"started", "ended"}] == ["r1", "r1", "r2", "r2"]
        assert (events.shown("r1"), events.shown("r2")) == ("SUCCESS", "SUCCESS")
        assert len(bench.notes("start")) == 1
        assert bench.stats(worker)["turnfleet"]["limit"] == 1
        assert worker.stop() == 0
        assert len(bench.notes("stop")) == 1


@pytest.mark.slow
def test_solo_drains_on_sigterm(bench: Bench) -> None:
    """A running run may end; the host is told to claim nothing more, and stopped."""
    with bench.worker("--pool=solo") as worker:
        bench.send("r1", seconds=1.5)
        bench.wait_for("started")
        assert worker.stop() == 0
        assert [note["what"] for note in bench.notes()][-2:] == ["ended", "stop"]
        assert worker.log.count("host: drain") == 1


def test_two_fleets_on_one_redis_see_nothing_of_each_other(redis_url: str, fleet_name: str) -> None:
    """Neither `inspect ping` nor Celery's events nor the queue cross from one fleet to another (DESIGN 7)."""
    left, right = Bench(redis_url, f"{fleet_name}.a"), Bench(redis_url, f"{fleet_name}.b")
    with left, right, EventWatch(right) as events, left.worker() as a, right.worker() as b:
        left.send("r1")
        right.send("r2")
        events.wait_for("r2", "task-succeeded")
        left.wait_for("ended")
        for bench, worker in ((left, a), (right, b)):
            assert set(eventually(bench.celery.control.inspect(timeout=1).ping)) == {worker.hostname}
        assert {event["hostname"] for event in events.log if event["type"] != "task-sent"} == {b.hostname}
        assert {note["run"] for note in right.notes("seen")} == {"r2"}
        assert right.broker.keys("unacked*") == []


def test_a_worker_looks_for_garbage_seldom_and_not_in_what_it_was_loaded_with(bench: Bench) -> None:
    """A look through all modules of the process takes a tenth of a second, in which every run of it waits."""
    with bench.worker():
        bench.send("r1")
        (note,) = bench.wait_for("ended", run="r1")
    assert note["frozen"] > 10_000
    assert note["young"] >= 10_000
