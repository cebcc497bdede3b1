"""The ways in which people start a worker: each runs what it should, or says why not and what to do instead.

One row a way; what does not exclude each other shares a start. Two nodes on one host are in nearly every other test.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
from fleet.conftest import StartWorker
from support.redis_server import RedisServer
from support.waiting import always, eventually
from support.worker_process import TESTS, WorkerProcess

from turnfleet import Fleet, PlanSpec
from turnfleet.wire.broker import default_queue

APP = "fleet.pkg.myfleet"
PLAN = PlanSpec(name="variant", model="caller", tools=("gate", "ask"))
QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat")


def ended(fleet: Fleet, run_id: str, **options: Any) -> str:
    """Enqueue a run and give its text."""
    return fleet.enqueue(PLAN, "go", run_id=run_id, **options).result(timeout=60).text


def ticked(fleet: Fleet) -> None:
    """Assert that the beat inside a worker had its run made, and that it ran."""
    eventually(lambda: "tick" in {run.run_id for run in fleet.runs().items})
    assert fleet.run("tick").result(timeout=60).text == "through"


def test_built_at_import_in_a_package_with_one_slot_in_another_time_zone(
    fleet: Fleet, start_worker: StartWorker
) -> None:
    """`-A pkg.myfleet -c 1`, TZ and Celery's `timezone` set, as root: times are moments, wherever somebody lives."""
    env = {"TZ": "Asia/Kathmandu", "VARIANT_TIMEZONE": "Asia/Kathmandu", "C_FORCE_ROOT": "1", "PYTHONUNBUFFERED": ""}
    worker = start_worker(APP, concurrency=1, env=env)
    soon = datetime.now(UTC) + timedelta(seconds=0.5)
    assert ended(fleet, "later", eta=soon, expires=timedelta(minutes=5)) == "through"
    started = fleet.run("later").status().started_at
    assert started is not None
    assert soon <= started < soon + timedelta(minutes=1)
    assert [each["in_flight"] <= 1 for each in fleet.workers()] == [True]
    # Celery's own warning; with JSON only it needs no more than that.
    assert ("superuser privileges" in worker.log) == (os.geteuid() == 0)


def test_queues_of_ones_own_without_docstrings_and_celerys_chatter(
    fleet: Fleet, fleet_name: str, start_worker: StartWorker, client: redis.Redis
) -> None:
    """`-A pkg.myfleet:app -Q a,b`: what waits in another queue waits there, and the announcement says which are served.

    Under PYTHONOPTIMIZE=2 there are no asserts and no docstrings, and nothing of ours needs them.
    """
    start_worker(f"{APP}:app", options=["-Q", "a,b", *QUIET], env={"PYTHONOPTIMIZE": "2"})
    unserved = [fleet.enqueue(PLAN, "go"), fleet.enqueue(PLAN, "go", countdown=0.1)]
    assert [ended(fleet, f"in-{queue}", queue=queue) for queue in ("a", "b")] == ["through", "through"]
    assert [worker["queues"] for worker in fleet.workers()] == [["a", "b"]]
    # This worker's sweep is who publishes the one that was delayed, and consumes it all the same not.
    eventually(lambda: [client.llen(f"{default_queue(fleet_name)}\x06\x164")] == [2])
    always(lambda: [run.status().state for run in unserved] == ["queued", "queued"], 0.5)


def test_a_tool_that_loses_its_docstring_is_refused_by_name(fleet_name: str, redis_url: str) -> None:
    """Under PYTHONOPTIMIZE=2 a model would be offered a tool without a word on what it does."""
    env = {"TURNFLEET_REDIS_URL": redis_url, "TURNFLEET_NAME": fleet_name, "PYTHONOPTIMIZE": "2"}
    worker = WorkerProcess("fleet.planned", env=env)
    worker.start()
    try:
        assert worker.wait(60) not in (0, None)
        assert "tool 'note' has no description, and under python -OO" in worker.log
        assert "description='…'" in worker.log
    finally:
        worker.close()


@pytest.mark.slow
def test_solo_with_a_beat_inside(fleet: Fleet, start_worker: StartWorker) -> None:
    """`--pool=solo -B`: a schedule's task enqueues a run of the fleet that runs it; without asserts, too."""
    start_worker(APP, options=["--pool=solo", "-B"], env={"PYTHONOPTIMIZE": "1"})
    ticked(fleet)


@pytest.mark.slow
def test_a_pool_that_grows_and_shrinks_with_its_load(
    fleet: Fleet, fleet_name: str, start_worker: StartWorker, client: redis.Redis
) -> None:
    """`--autoscale=3,1`, and a beat in a process of its own beside the pool's loop (`-B`)."""
    worker = start_worker(APP, options=["--autoscale=3,1", "-B"], env={"AUTOSCALE_KEEPALIVE": "0.3"})
    runs = [fleet.enqueue(PLAN, "go", run_id=f"held-{place}") for place in range(4)]
    states = eventually(lambda: (s := sorted(run.status().state for run in runs))[1:] == ["running"] * 3 and s)
    assert states == ["queued", "running", "running", "running"]
    client.lpush(f"gate:{fleet_name}", "open")
    assert {run.result(timeout=60).text for run in runs} == {"through"}
    ticked(fleet)
    worker.wait_for_log("Scaling down")


@pytest.fixture
def daemons(tmp_path: Path, redis_server: RedisServer, fleet_name: str) -> Any:
    """Give a function that runs `celery ...` in a folder; whatever leaves a pid file there is ended with the test."""
    env = {
        **os.environ,
        "PYTHONPATH": str(TESTS),
        "TURNFLEET_REDIS_URL": redis_server.url,
        "TURNFLEET_NAME": fleet_name,
    }

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "celery", *words]
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=240, check=False)

    yield run
    for file in tmp_path.glob("*.pid"):
        os.kill(int(file.read_text()), signal.SIGKILL)


@pytest.mark.slow
def test_daemons_of_celerys_own(
    fleet: Fleet, daemons: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    """`celery multi start`, which is `worker --detach` twice, on one host: both announce themselves, and drain."""
    where = (f"--pidfile={tmp_path}/%n.pid", f"--logfile={tmp_path}/%n.log")
    done = daemons("multi", "start", "one", "two", "-A", APP, "-c", "2", *where)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ended(fleet, "detached") == "through"
    eventually(lambda: len(fleet.workers()) == 2)
    assert daemons("multi", "stopwait", "one", "two", *where).returncode == 0
    assert list(tmp_path.glob("*.pid")) == []
    assert fleet.workers() == ()
