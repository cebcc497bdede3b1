"""The way out: the first signal drains, the second goes now, and nothing that is stuck holds up the process."""

import signal

import pytest
from pool.bench import Bench, EventWatch


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_the_first_signal_lets_what_runs_end(bench: Bench, number: signal.Signals) -> None:
    """SIGTERM and Ctrl-C: drain once, the run ends and is shown, the host stops, the process is gone (DESIGN 5)."""
    with EventWatch(bench) as events, bench.worker(concurrency=1, DRAIN="600") as worker:
        bench.send("r1", gate="r1")
        bench.wait_for("started")
        worker.send(number)
        worker.wait_for_log("host: drain")
        bench.open("r1")
        events.wait_for("r1", "task-succeeded")
        assert worker.wait() == (0 if number == signal.SIGTERM else 1)
        assert worker.log.count("host: drain") == 1
        assert [note["what"] for note in bench.notes()] == ["start", "seen", "started", "ended", "stop"]
        assert 0 < bench.notes("stop")[0]["drain_seconds"] <= 600


def test_what_lies_in_the_queue_stays_there_for_others(bench: Bench) -> None:
    """A draining worker starts nothing, and puts back at once what Redis had already handed to it."""
    with bench.worker(concurrency=2, DRAIN="600") as worker:
        bench.send("r1", gate="never")
        bench.wait_for("started")
        worker.send(signal.SIGTERM)
        worker.wait_for_log("host: drain")
        bench.send("r2")
        with bench.worker(concurrency=1) as other:
            bench.wait_for("ended", run="r2")
            assert {note["pid"] for note in bench.notes("seen", run="r2")} == {other.pid}
        assert worker.running
        assert bench.notes("ended", run="r1") == []


def test_what_ends_while_others_drain_is_shown_at_once(bench: Bench) -> None:
    """Acknowledgements and events leave during the drain, not after it."""
    with EventWatch(bench) as events, bench.worker(DRAIN="600") as worker:
        bench.send("long", gate="never")
        bench.send("short", gate="short")
        bench.wait_for("started", 2)
        worker.send(signal.SIGTERM)
        worker.wait_for_log("host: drain")
        bench.open("short")
        events.wait_for("short", "task-succeeded")
        assert worker.running


@pytest.mark.slow
def test_a_message_that_waits_in_the_process_goes_back_to_the_queue(bench: Bench) -> None:
    """Prefetched and never started: unacknowledged, so that the broker has it again when the worker is gone."""
    with EventWatch(bench) as events, bench.worker(concurrency=1, PREFETCH="1") as worker:
        bench.send("r1", gate="r1")
        bench.send("r2")
        events.wait_for("r2", "task-received")
        worker.send(signal.SIGTERM)
        worker.wait_for_log("host: drain")
        bench.open("r1")
        assert worker.wait() == 0
        assert (bench.waiting(), bench.unacked()) == (1, 0)
        assert bench.notes("seen", run="r2") == []


def test_the_drain_has_an_end(bench: Bench) -> None:
    """After `drain_seconds` the host is stopped with no time left, and the coroutine cancelled (DESIGN 6)."""
    with bench.worker(DRAIN="1") as worker:
        bench.send("r1", gate="never")
        bench.wait_for("started")
        assert worker.stop() == 0
        assert [note["what"] for note in bench.notes()][:4] == ["start", "seen", "started", "stop"]
        assert bench.notes("ended") == []
        assert bench.notes("stop")[0]["drain_seconds"] == 0


@pytest.mark.slow
def test_a_run_that_is_let_go_is_not_shown_as_ended(bench: Bench) -> None:
    """It has not ended: another worker takes it up, and Flower must not show a failure or a success before."""
    with EventWatch(bench) as events:
        with bench.worker(DRAIN="0") as worker:
            bench.send("r1", seconds=60)
            events.wait_for("r1", "task-started")
            worker.stop()
        assert events.kinds("r1") == ["task-received", "task-started"]


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_the_second_signal_goes_now(bench: Bench, number: signal.Signals) -> None:
    """An hour of drain is cut short by whoever asks twice."""
    with bench.worker(DRAIN="3600") as worker:
        bench.send("r1", seconds=3600)
        bench.wait_for("started")
        worker.send(number)
        worker.wait_for_log("host: drain")
        worker.send(number)
        worker.wait()
        assert len(bench.notes("stop")) == 1


@pytest.mark.slow
def test_sigquit_goes_now(bench: Bench) -> None:
    """Celery's cold shutdown, which works inside a signal handler: the host is still stopped."""
    with bench.worker(DRAIN="3600") as worker:
        bench.send("r1", seconds=3600)
        bench.wait_for("started")
        worker.send(signal.SIGQUIT)
        worker.wait()
        assert len(bench.notes("stop")) == 1


@pytest.mark.parametrize(
    "ending",
    ["thread", pytest.param("block", marks=pytest.mark.slow), pytest.param("stubborn", marks=pytest.mark.slow)],
)
def test_nothing_that_is_stuck_holds_up_the_process(bench: Bench, ending: str) -> None:
    """A tool stuck in a thread, one that blocks the event loop, one that swallows its cancellation (DESIGN 6)."""
    with bench.worker(DRAIN="0.5") as worker:
        bench.send("r1", ending=ending, seconds=300 if ending == "block" else 0)
        bench.wait_for("started")
        assert worker.stop() == 0


@pytest.mark.slow
def test_a_users_own_stuck_task_does_not_hold_up_the_process(bench: Bench) -> None:
    """It runs in a daemon thread, which ends with the process."""
    with EventWatch(bench) as events, bench.worker(DRAIN="0.5") as worker:
        bench.celery.send_task("plain.hang", (300,), task_id="hang", queue=bench.queue)
        events.wait_for("hang", "task-started")
        assert worker.stop() == 0


@pytest.mark.slow
def test_a_users_own_task_may_end_first(bench: Bench) -> None:
    """The drain waits for plain tasks, too."""
    with EventWatch(bench) as events, bench.worker() as worker:
        bench.celery.send_task("plain.hang", (1.5,), task_id="slow", queue=bench.queue)
        events.wait_for("slow", "task-started")
        assert worker.stop() == 0
        events.wait_for("slow", "task-succeeded")
