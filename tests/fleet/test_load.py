"""Many runs at once, and a worker that dies among them."""

import time
from collections.abc import Callable
from typing import Any

import pytest
import redis
from fleet.conftest import PLAN, StartWorker, call, steps
from fleet.helpers import check_stream
from support.waiting import eventually
from support.worker_process import WorkerProcess

from turnfleet import Fleet
from turnfleet.wire.connecting import producer_app

Marks = Callable[[str], list[str]]


def test_200_runs_enqueued_at_once_finish(fleet: Fleet, start_worker: StartWorker) -> None:
    """Each has contiguous indices from 0 and one run-terminal event, last (EVT-2, EVT-4)."""
    start_worker(concurrency=50)
    prompt = steps([call("note", text="a"), call("note", text="b")], "one two three")
    runs = fleet.enqueue_many([(PLAN, prompt)] * 200)
    for run in runs:
        assert run.result(timeout=60).text == "one two three"
        check_stream(list(run.events(timeout=60)))
    assert len({run.run_id for run in runs}) == 200


def held(worker: WorkerProcess, control: Any) -> int:
    """Say how many messages a worker process holds: those it runs and those it fetched."""
    stats = eventually(control.inspect(destination=[worker.hostname], timeout=10).stats)[worker.hostname]
    return int(stats["turnfleet"]["in-flight"] + stats["turnfleet"]["waiting"])


@pytest.mark.slow
def test_a_backlog_of_2000_survives_a_killed_worker(
    fleet: Fleet, start_worker: StartWorker, client: redis.Redis, fleet_name: str, redis_url: str, marks: Marks
) -> None:
    """Two workers at `-c 2`: neither hoards more than concurrency + prefetch, and after kill -9 all runs finish."""
    concurrency = prefetch = 2
    first, second = start_worker(concurrency=concurrency), start_worker(concurrency=concurrency)
    runs = fleet.enqueue_many([(PLAN, steps([call("dawdle", seconds=0.02)], "slowly done"))] * 2000)
    queue = f"turnfleet.{fleet_name}"
    with_priority = f"{queue}\x06\x164"
    eventually(lambda: len(marks("model:")) > 200)
    control = producer_app(redis_url, fleet_name).control
    for _ in range(5):
        for worker in (first, second):
            assert held(worker, control) <= concurrency + prefetch
        # The same from outside: what was in the queue no more, and has not ended since, is held by one of the two.
        taken = 2000 - client.llen(with_priority)
        ended = sum(client.zcard(name) for name in client.scan_iter(f"{{{fleet_name}:*}}:s:completed"))
        assert taken - ended <= 2 * (concurrency + prefetch)
    assert client.llen(with_priority) > 1000, "the backlog was gone before it was looked at"
    first.kill()
    limit = time.monotonic() + 500
    for run in runs:
        assert run.result(timeout=limit - time.monotonic()).text == "slowly done"
    assert {run.status().state for run in runs} == {"completed"}
    assert client.llen(with_priority) == 0
    assert {run.status().attempts for run in runs} <= {1, 2}
    # A long backlog does not multiply itself: only runs of the killed worker were offered again (DESIGN 1).
    offers = [int(client.hget(name, "offers") or 0) for name in client.scan_iter(f"{{{fleet_name}:*}}:r:*")]
    assert sum(offers) <= 2000 * 1.05
