"""What a real worker tells Prometheus: exact numbers of known work, under names that follow the conventions."""

import re
import socket
import uuid
from collections.abc import Callable

import pytest
import redis
from fleet.conftest import PLAN, StartWorker, call, steps
from fleet.helpers import celery_message, push
from support.scraping import Scrape, scrape
from support.waiting import eventually
from support.worker_process import WorkerProcess

from turnfleet import Approve, Fleet, PlanSpec, Run, RunFailed
from turnfleet.wire.broker import default_queue
from turnfleet.wire.connecting import producer_app

LEASE_SECONDS = 5
METERED = {
    "TURNFLEET_METRICS_PORT": "0",
    "LEASE_SECONDS": str(LEASE_SECONDS),
    "PLANNED_REOFFER": "3600",  # a message that waits for long on a busy machine is not another message
}
OTHER = "other"
"""The queue of the worker that is killed."""


@pytest.fixture
def worker(start_worker: StartWorker) -> WorkerProcess:
    """Give a worker that serves its metrics on any free port."""
    return start_worker(env=METERED)


@pytest.fixture
def ask(worker: WorkerProcess, fleet: Fleet) -> Callable[[], Scrape]:
    """Give a function that scrapes it, at the port which it announces."""
    where = next(each["metrics"] for each in fleet.workers() if each["worker"].endswith(f":{worker.pid}"))
    return lambda: scrape(where)


def wait_for(run: "Run[object]", state: str) -> None:
    """Wait for a run's state."""
    eventually(lambda: run.status().state == state, what=f"{run.run_id} {state}")


def until_called(run: "Run[object]") -> None:
    """Wait until a run has made a call."""
    assert any(event.kind == "tool_call" for event in run.events(until="terminal", timeout=60))


@pytest.mark.slow
def test_every_number_is_that_of_the_work_done(
    fleet: Fleet,
    worker: WorkerProcess,
    ask: Callable[[], Scrape],
    start_worker: StartWorker,
    client: redis.Redis,
    fleet_name: str,
    redis_url: str,
) -> None:
    """Runs that complete, fail, are retried, pause and are resumed, expire, lose their worker; and a duplicate."""
    before = ask()
    done: Run[object] = fleet.enqueue(PLAN, steps([call("note", text="my secret")], "over"), run_id=uuid.uuid4().hex)
    done.result(timeout=60)
    failed: Run[object] = fleet.enqueue(PLAN, steps({"fail": "the provider is down"}))
    with pytest.raises(RunFailed):
        failed.result(timeout=60)
    failed.retry()
    eventually(lambda: failed.status().attempts == 2 and failed.status().state == "failed")
    asking: Run[object] = fleet.enqueue(PLAN, steps([call("refund", order_id="1", amount=60)], "over"))
    wait_for(asking, "paused")
    eventually(
        lambda: (seen := ask())["turnfleet_runs", "state=paused"] == 1 and seen["turnfleet_oldest_pause_age_seconds"]
    )
    (interrupt,) = asking.interrupts()
    asking.resume({interrupt.id: Approve()}, by="alice", roles=("finance",))
    asking.result(timeout=60)
    wait_for(fleet.enqueue(PLAN, steps([call("hasty")], "over")), "completed")
    wait_for(fleet.enqueue(PLAN, steps([call("fleeting")], "never")), "expired")
    waited = ask()["turnfleet_queue_wait_seconds_sum"]
    _lose_a_worker(fleet, start_worker, worker, producer_app(redis_url, fleet_name).control)
    # The lost run waited for a lease to end, but not in a queue.
    assert ask()["turnfleet_queue_wait_seconds_sum"] - waited < LEASE_SECONDS
    envelope = {"v": 1, "fleet": fleet_name, "run_id": done.run_id, "plan": PLAN.model_dump(mode="json")}
    envelope["request"] = {"prompt": "another"}
    push(
        client, default_queue(fleet_name), celery_message("x", {"envelope": envelope}, queue=default_queue(fleet_name))
    )
    push(client, default_queue(fleet_name), celery_message("y", {"envelope": {}}, queue=default_queue(fleet_name)))
    push(client, default_queue(fleet_name), celery_message("z", {"prompt": "?"}, queue=default_queue(fleet_name)))
    eventually(lambda: ask()["turnfleet_messages_total", "outcome=refused_envelope"])
    after = ask()

    def grown(*names: str) -> dict[tuple[str, ...], float]:
        return after.grown_since(before, *(f"turnfleet_{name}" for name in names))

    assert grown("claims_total", "claims_lost_total", "leases_lost_total", "decisions_expired_total") == {
        ("turnfleet_claims_total", "why=new"): 5,
        ("turnfleet_claims_total", "why=resumed"): 2,
        ("turnfleet_claims_total", "why=retried"): 1,
        ("turnfleet_claims_total", "why=lost"): 1,
        ("turnfleet_leases_lost_total",): 1,
        ("turnfleet_decisions_expired_total",): 1,
    }
    assert grown("runs_ended_total", "pauses_total", "run_seconds_count", "queue_wait_seconds_count") == {
        ("turnfleet_runs_ended_total", "plan=planned", "state=completed"): 4,
        ("turnfleet_runs_ended_total", "plan=planned", "state=failed"): 2,
        ("turnfleet_runs_ended_total", "plan=planned", "state=expired"): 1,
        ("turnfleet_pauses_total", "plan=planned"): 3,
        ("turnfleet_run_seconds_count", "plan=planned"): 6,
        ("turnfleet_queue_wait_seconds_count",): 9,
    }
    assert grown("model_turns_total", "tokens_total") == {
        ("turnfleet_model_turns_total", "model=planned"): 8,
        ("turnfleet_tokens_total", "kind=input", "model=planned"): 80,
        ("turnfleet_tokens_total", "kind=output", "model=planned"): 16,
    }
    assert grown("messages_total") == {
        ("turnfleet_messages_total", "outcome=claimed"): 9,
        ("turnfleet_messages_total", "outcome=nothing_to_do"): 1,
        ("turnfleet_messages_total", "outcome=invalid"): 1,
        ("turnfleet_messages_total", "outcome=refused_envelope"): 1,
    }
    assert after["turnfleet_event_lag_seconds_count"] > before["turnfleet_event_lag_seconds_count"]
    # What the lost run ran before does count.
    assert after["turnfleet_run_seconds_sum", "plan=planned"] > 2
    eventually(lambda: (now := ask())["turnfleet_runs", "state=paused"] == 0 and now["turnfleet_runs_in_flight"] == 0)
    assert "secret" not in after.text
    assert done.run_id not in after.text
    check_names(after)


def _lose_a_worker(fleet: Fleet, start_worker: StartWorker, heir: WorkerProcess, control: "object") -> None:
    """Kill a worker that works on a run, which another one then finishes."""
    doomed = start_worker(env=METERED, options=["-Q", OTHER])
    run: Run[object] = fleet.enqueue(PLAN, steps([call("dawdle", seconds=2)], "over"), queue=OTHER)
    until_called(run)
    control.add_consumer(OTHER, destination=[heir.hostname], reply=True)  # type: ignore[attr-defined]
    doomed.kill()
    run.result(timeout=40)


def check_names(seen: Scrape) -> None:
    """Assert what promtool's linter does: one unit, in the name; `_total` for counters alone; a text for each."""
    own = [family for family in seen.families if family.name.startswith("turnfleet_")]
    assert len(own) > 15
    for family in own:
        assert re.fullmatch(r"turnfleet_[a-z]+(_[a-z]+)*", family.name), family.name
        assert family.documentation.endswith("."), family.name
        assert not re.search(r"(_ms|_milliseconds|_minutes|_hours|_counter|_gauge|_histogram)(_|$)", family.name)
        for sample in family.samples:
            assert (family.type == "counter") == sample.name.endswith("_total"), sample.name
            assert family.type == "histogram" or not sample.name.endswith(("_bucket", "_count", "_sum")), sample.name
            assert all(re.fullmatch(r"[a-z]+", name) for name in sample.labels), sample
            assert ("le" in sample.labels) == sample.name.endswith("_bucket"), sample
    assert not any(sample[0].endswith("_created") for sample in seen.samples)


def test_a_blocked_event_loop_does_not_stop_the_scrape_and_is_seen_in_the_next(
    fleet: Fleet, ask: Callable[[], Scrape], marks: Callable[[str], list[str]], client: redis.Redis, fleet_name: str
) -> None:
    """Metrics are served by threads of their own."""
    plan = PlanSpec(name="blocking", model="planned", tools=("block",))
    run: Run[object] = fleet.enqueue(plan, steps([call("block", key=f"gate:{fleet_name}")], "over"))
    eventually(lambda: marks("block:"))
    during = ask()
    assert run.status().state == "running"
    assert (during["turnfleet_runs_in_flight"], during["turnfleet_slots"]) == (1, 8)
    client.rpush(f"gate:{fleet_name}", "open")
    run.result(timeout=60)
    assert eventually(lambda: ask()["turnfleet_event_loop_worst_lag_seconds"]) > 1


@pytest.mark.slow
def test_a_port_that_is_taken_costs_the_metrics_and_not_the_worker(start_worker: StartWorker, fleet: Fleet) -> None:
    """Said in the log with what to do; the announcement has no address."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        worker = start_worker(env={"TURNFLEET_METRICS_PORT": str(other.getsockname()[1])})
    assert "no metrics: 127.0.0.1" in worker.log
    assert "TURNFLEET_METRICS_PORT, or 0 for any free one" in worker.log
    assert fleet.enqueue(PLAN, steps("over")).result(timeout=60).text == "over"
    assert [each["metrics"] for each in fleet.workers()] == [None]
