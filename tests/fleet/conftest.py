"""A real worker process of the planned fleet, and a client of it."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import redis
from support.redis_server import RedisServer
from support.worker_process import WorkerProcess

from turnfleet import Fleet, PlanSpec

StartWorker = Callable[..., WorkerProcess]
SHORT_LEASE = {"LEASE_SECONDS": "3"}
"""The environment of workers whose leases a test waits for."""

PLAN = PlanSpec(
    name="planned",
    model="planned",
    tools=("note", "wait_for", "dawdle", "refund", "hasty", "fleeting", "broken", "ask"),
)


def steps(*each: Any) -> str:
    """Spell out what the planned model does: see fleet/planned.py."""
    return json.dumps(each)


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """Spell out one tool call."""
    return {"name": name, "arguments": arguments}


@pytest.fixture
def fleet(redis_url: str, fleet_name: str) -> Iterator[Fleet]:
    """Give a client of this test's own fleet."""
    with Fleet(redis_url, name=fleet_name, poll_interval=0.5) as client:
        yield client


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator[redis.Redis]:
    """Give a plain client of the tests' server: to read marks, push raw messages, open gates."""
    with redis.Redis.from_url(redis_server.url) as plain:
        yield plain


@pytest.fixture
def start_worker(redis_url: str, fleet_name: str) -> Iterator[StartWorker]:
    """Give a function that starts a worker of this test's fleet; all are ended with the test."""
    with ExitStack() as stack:

        def start(app: str = "fleet.planned", concurrency: int = 8, **options: Any) -> WorkerProcess:
            env = {"TURNFLEET_REDIS_URL": redis_url, "TURNFLEET_NAME": fleet_name} | options.pop("env", {})
            return stack.enter_context(WorkerProcess(app, concurrency=concurrency, env=env, **options))

        yield start


@pytest.fixture
def marks(client: redis.Redis, fleet_name: str) -> Callable[[str], list[str]]:
    """Give a function that lists the marks that models and tools leave from now on, those beginning with a text."""
    before = client.llen(f"marks:{fleet_name}")

    def read(beginning: str = "") -> list[str]:
        every = [
            str(mark, "utf-8") if isinstance(mark, bytes) else mark
            for mark in client.lrange(f"marks:{fleet_name}", before, -1)
        ]
        return [mark for mark in every if mark.startswith(beginning)]

    return read
