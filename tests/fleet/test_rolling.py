"""Workers that are asked to go: runs are handed over where nothing has to be repeated (DESIGN 5, CXL-7)."""

import signal
import time
from collections import Counter
from collections.abc import Callable

import pytest
import redis
from fleet.conftest import PLAN, SHORT_LEASE, StartWorker, call, steps
from fleet.helpers import check_stream
from support.waiting import eventually

from turnfleet import Fleet, Retry
from turnfleet_kernel import PlanLimits

Marks = Callable[[str], list[str]]


def test_a_stopped_worker_hands_its_run_over_at_the_next_journal_point(
    fleet: Fleet, start_worker: StartWorker, client: redis.Redis, fleet_name: str, marks: Marks
) -> None:
    """The call at work ends and is kept; the rest is another worker's. No attempt is spent, nobody is asked."""
    first = start_worker("fleet.patient")
    run = fleet.enqueue(PLAN, steps([call("wait_for", key=f"gate:{fleet_name}")], [call("note", text="x")], "the end"))
    eventually(lambda: marks("wait_for:"))
    first.send(signal.SIGTERM)
    eventually(lambda: [worker["draining"] for worker in fleet.workers()] == [True])
    client.rpush(f"gate:{fleet_name}", "open")
    assert first.wait() == 0
    assert (run.status().state, run.status().losses, marks("note:")) == ("queued", 0, [])
    start_worker("fleet.patient")
    assert run.result(timeout=60).text == "the end"
    events = list(run.events(timeout=60))
    check_stream(events)
    assert [event.kind for event in events].count("resumed") == 1
    assert (len(marks("wait_for:")), len(marks("note:")), len(marks("model:"))) == (1, 1, 3)


def test_a_run_that_reaches_no_journal_point_is_cut_off_at_the_drains_end(
    fleet: Fleet, start_worker: StartWorker, client: redis.Redis, fleet_name: str, marks: Marks
) -> None:
    """Its call is left in doubt, and asked about; it is no lost lease."""
    first = start_worker("fleet.patient", env={"DRAIN_SECONDS": "0.5"})
    run = fleet.enqueue(PLAN, steps([call("wait_for", key=f"gate:{fleet_name}")], "the end"))
    eventually(lambda: marks("wait_for:"))
    assert first.stop() == 0
    assert (run.status().state, run.status().losses) == ("queued", 0)
    start_worker("fleet.patient")
    status = eventually(lambda: (seen := run.status()).state == "paused" and seen)
    (waiting,) = status.interrupts
    assert (waiting.kind, waiting.tool) == ("in_doubt", "wait_for")
    client.rpush(f"gate:{fleet_name}", "open")
    run.resume({waiting.id: Retry()}, by="alice")
    assert run.result(timeout=60).text == "the end"


def test_a_second_signal_ends_the_worker_now(
    fleet: Fleet, start_worker: StartWorker, fleet_name: str, marks: Marks
) -> None:
    """The drain may take ten minutes; with the second SIGTERM the process is gone, and its run is handed back."""
    first = start_worker("fleet.patient", env={"DRAIN_SECONDS": "600"})
    run = fleet.enqueue(PLAN, steps([call("wait_for", key=f"gate:{fleet_name}")], "the end"))
    eventually(lambda: marks("wait_for:"))
    first.send(signal.SIGTERM)
    eventually(lambda: [worker["draining"] for worker in fleet.workers()] == [True])
    assert first.running
    first.send(signal.SIGTERM)
    first.wait(60)
    assert (run.status().state, run.status().losses) == ("queued", 0)


@pytest.mark.slow
def test_a_rolling_restart_under_load_fails_no_run_and_repeats_no_call(
    fleet: Fleet, start_worker: StartWorker, marks: Marks
) -> None:
    """Two workers are replaced one after the other, twice: all runs finish, each call once, nothing in doubt."""
    rounds = [[call("note", text="a"), call("note", text="b")], [call("dawdle", seconds=0.4)]] * 6
    plan = PLAN.model_copy(update={"limits": PlanLimits(max_model_rounds=20)})
    workers = [start_worker("fleet.patient", concurrency=40) for _ in range(2)]
    runs = fleet.enqueue_many([(plan, steps(*rounds, "finished"))] * 60)
    eventually(lambda: len(marks("note:")) > 30)
    for number in range(4):
        going = workers[number % 2]
        going.send(signal.SIGTERM)
        workers[number % 2] = start_worker("fleet.patient", concurrency=40)
        assert going.wait() == 0
        runs += fleet.enqueue_many([(plan, steps(*rounds, "finished"))] * 15)
    limit = time.monotonic() + 300
    for run in runs:
        assert run.result(timeout=limit - time.monotonic()).text == "finished"
        check_stream(list(run.events(timeout=60)))
        assert run.status().losses == 0
    assert {kind: count for kind, count in Counter(marks("note:")).items() if count > 1} == {}
    assert len(marks("note:")) == len(runs) * 12
    assert any(run.status().attempts > 1 for run in runs), "no run was handed over: nothing was shown"
    # A model call that was cut off is bought again; one that ended is not.
    assert len(marks("model:")) >= len(runs) * 13


@pytest.mark.slow
def test_a_worker_that_was_frozen_longer_than_its_lease_has_no_say_any_more(
    fleet: Fleet, start_worker: StartWorker, client: redis.Redis, fleet_name: str, marks: Marks
) -> None:
    """Another finishes the run; the first wakes up: its writes are refused, its effects stop, the outcome stays."""
    gate = f"gate:{fleet_name}"
    first = start_worker("fleet.patient", env={"DRAIN_SECONDS": "1", **SHORT_LEASE})
    run = fleet.enqueue(PLAN, steps([call("wait_for", key=gate)], [call("note", text="x")], "the end"))
    eventually(lambda: marks("wait_for:"))
    first.send(signal.SIGSTOP)
    start_worker("fleet.patient", env=SHORT_LEASE)
    status = eventually(lambda: (seen := run.status()).state == "paused" and seen)
    (waiting,) = status.interrupts
    assert waiting.kind == "in_doubt"
    run.resume({waiting.id: Retry()}, by="alice")
    eventually(lambda: len(marks("wait_for:")) == 2)
    client.rpush(gate, "open")
    assert run.result(timeout=60).text == "the end"
    before = [event.kind for event in run.events(timeout=60)]
    first.send(signal.SIGCONT)
    eventually(lambda: [worker["in_flight"] for worker in fleet.workers()] == [0, 0])
    # The first worker's own call came back meanwhile, and led to nothing.
    assert [event.kind for event in run.events(timeout=60)] == before
    assert (run.status().state, len(marks("note:"))) == ("completed", 1)
    other = fleet.enqueue(PLAN, steps([call("note", text="y")], "as well as ever"))
    assert other.result(timeout=60).text == "as well as ever"
