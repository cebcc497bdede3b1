"""Services that fork after they made their client: a real gunicorn with --preload, a real Celery with prefork."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from celery import Celery
from producer.kit import Stage, stage_of
from support.ports import free_port
from support.redis_server import RedisServer
from support.waiting import eventually
from support.worker_process import TESTS, WorkerProcess

WORKERS, THREADS, RUNS = 2, 4, 60


@pytest.fixture
def alone(own_redis: RedisServer, fleet_name: str) -> Iterator[Stage]:
    """Give a stage on a server of the test's own: its connections are counted."""
    yield from stage_of(own_redis.url, fleet_name)


def env_of(stage: Stage) -> dict[str, str]:
    """Give the environment in which a service finds the stage's fleet."""
    return {"PYTHONPATH": str(TESTS), "TURNFLEET_REDIS_URL": stage.url, "TURNFLEET_NAME": stage.fleet}


@pytest.fixture
def gunicorn(alone: Stage, tmp_path: Path) -> Iterator[int]:
    """Run the service under gunicorn, and give its port."""
    port = free_port()
    command = [sys.executable, "-m", "gunicorn", "--preload", "-w", str(WORKERS), "--threads", str(THREADS)]
    command += ["-b", f"127.0.0.1:{port}", "--worker-tmp-dir", str(tmp_path), "--no-control-socket"]
    with ExitStack() as stack:
        log = stack.enter_context((tmp_path / "log").open("wb"))
        service = subprocess.Popen(
            [*command, "producer.apps.web:application"], env={**os.environ, **env_of(alone)}, stdout=log, stderr=log
        )
        stack.callback(service.wait, 20)
        stack.callback(service.terminate)
        eventually(lambda: answers(port), what=f"gunicorn: {(tmp_path / 'log').read_text()}")
        yield port


def ask(port: int, run_id: str) -> dict[str, Any]:
    """Enqueue a run by the service; give its answer."""
    with urlopen(f"http://127.0.0.1:{port}/{run_id}", timeout=60) as answer:
        body: dict[str, Any] = json.loads(answer.read())
        return body


def answers(port: int) -> bool:
    """Whether the service is there."""
    try:
        return bool(ask(port, "first")["run_id"])
    except OSError:
        return False


def test_gunicorn_that_loads_the_service_before_it_forks(alone: Stage, gunicorn: int) -> None:
    """Each answer is about the run that was asked for, in every child and thread; few connections, none shared."""
    names: list[str] = []
    pids: set[int] = set()

    def all_answer() -> bool:
        """Ask many times at once, and say whether every child has answered by now: one may start late."""
        more = [f"web-{len(names) + place}" for place in range(RUNS)]
        for name, answer in zip(more, pool.map(lambda name: ask(gunicorn, name), more), strict=True):
            assert answer["run_id"] == name
            pids.add(answer["pid"])
        names.extend(more)
        return len(pids) == WORKERS

    with ThreadPoolExecutor(WORKERS * THREADS) as pool:
        eventually(all_answer, what="answers of every child")
    (preload,) = (each for each in alone.published() if each.startswith("preload-"))
    assert int(preload.partition("-")[2]) not in pids
    assert sorted(alone.published()) == sorted([*names, "first", preload])
    # For the master and for each thread one to the store, and two of kombu's to the broker; and the stage's own.
    assert len(alone.redis.client_list()) <= 3 * (1 + WORKERS * THREADS) + 1


def pid_of(stage: Stage, run_id: str) -> int:
    """Give the process that enqueued a run, as its metadata says."""
    metadata: Any = stage.redis.hget(stage.keys.record(run_id), "metadata")
    return int(json.loads(metadata)["pid"])


@pytest.mark.slow
def test_celery_prefork_of_a_caller(alone: Stage) -> None:
    """The tasks of another service's own prefork worker enqueue; parent and children have sockets of their own."""
    celery = Celery("client", broker=alone.url, set_as_current=False)
    names: list[str] = []
    pids: set[int] = set()

    def both_enqueued() -> bool:
        """Send many tasks, and say whether both children have worked by now: one may start late."""
        more = [f"task-{len(names) + place}" for place in range(RUNS)]
        names.extend(more)
        for name in more:
            celery.send_task("caller.enqueue", args=[name], queue=f"caller-{alone.fleet}")
        eventually(lambda: len(alone.published()) == len(names) + 1)
        pids.update(pid_of(alone, name) for name in more)
        return len(pids) == 2

    with WorkerProcess("producer.apps.caller", env=env_of(alone), options=["-P", "prefork"]):
        eventually(both_enqueued, what="tasks of both children")
    (preload,) = (each for each in alone.published() if each.startswith("preload-"))
    assert sorted(alone.published()) == sorted([*names, preload])
    assert int(preload.partition("-")[2]) not in pids
    celery.close()
