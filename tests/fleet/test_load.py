"""Many runs at once, and a worker that dies among them."""

import json
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

Marks = Callable[[str], list[str]]


def test_200_runs_enqueued_at_once_finish(fleet: Fleet, start_worker: StartWorker) -> None:
    """Each has contiguous indices from 0 and one run-terminal event, last (EVT-2, EVT-4)."""
    start_worker(concurrency=50)
    prompt = steps([call("note", text="a"), call("note", text="b")], "one two three")
    runs = fleet.enqueue_many([(PLAN, prompt)] * 200)
    for run in runs:
        assert run.result(timeout=60).text == "one two three"
        check_stream(list(run.events(timeout=5)))
    assert len({run.run_id for run in runs}) == 200


def held(worker: WorkerProcess, control: Any) -> int | None:
    """Say how many messages a worker process holds: those it runs and those it fetched."""
    answer = control.inspect(destination=[worker.hostname], timeout=2).stats()
    stats = (answer or {}).get(worker.hostname)
    return None if stats is None else stats["turnfleet"]["in-flight"] + stats["turnfleet"]["waiting"]


@pytest.mark.slow
def test_a_backlog_of_2000_survives_a_killed_worker(
    fleet: Fleet, start_worker: StartWorker, client: redis.Redis, fleet_name: str, redis_url: str, marks: Marks
) -> None:
    """Two workers at `-c 2`: neither hoards more than concurrency + prefetch, and after kill -9 all runs finish."""
    from turnfleet.wire.publish import _producer_app

    concurrency = prefetch = 2
    first = start_worker(concurrency=concurrency)
    second = start_worker(concurrency=concurrency)
    runs = fleet.enqueue_many([(PLAN, json.dumps(["slowly done"]))] * 2000)
    control = _producer_app(redis_url, fleet_name).control
    eventually(lambda: len(marks("model:")) > 100, 60)
    for _ in range(5):
        for worker in (first, second):
            holds = held(worker, control)
            assert holds is None or holds <= concurrency + prefetch
    assert len(marks("model:")) < 2000, "the backlog was gone before it was looked at"
    first.kill()
    limit = time.monotonic() + 200
    for run in runs:
        assert run.result(timeout=limit - time.monotonic()).text == "slowly done"
    assert {run.status().state for run in runs} == {"completed"}
    assert client.llen(f"turnfleet.{fleet_name}") == 0
