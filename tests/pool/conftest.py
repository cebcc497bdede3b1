"""What the pool's tests share: a bench with a broker, a record, and workers that run the recording app."""

import itertools
from collections.abc import Iterator

import pytest
from pool.bench import Bench, EventWatch
from support.redis_server import RedisServer
from support.worker_process import WorkerProcess

_runs = itertools.count(1)


@pytest.fixture
def run_id() -> str:
    """Give a run id that no other test uses, for tests that share a bench."""
    return f"run-{next(_runs)}"


@pytest.fixture
def bench(redis_url: str, fleet_name: str) -> Iterator[Bench]:
    """Give a bench on the session's Redis server."""
    with Bench(redis_url, fleet_name) as bench:
        yield bench


@pytest.fixture
def own_bench(own_redis: RedisServer, redis_server: RedisServer, fleet_name: str) -> Iterator[Bench]:
    """Give a bench whose broker the test may stop; the record stays on the session's server."""
    with Bench(own_redis.url, fleet_name, record_url=redis_server.url) as bench:
        yield bench


@pytest.fixture(scope="module")
def shared_bench(redis_server: RedisServer, shared_fleet_name: str) -> Iterator[Bench]:
    """Give one bench to a module whose tests all use the same worker."""
    with Bench(redis_server.url, shared_fleet_name) as bench:
        yield bench


@pytest.fixture(scope="module")
def shared_worker(shared_bench: Bench) -> Iterator[WorkerProcess]:
    """Give one worker to a module whose tests must not be able to harm it: that is what they test."""
    with shared_bench.worker() as worker:
        yield worker


@pytest.fixture(scope="module")
def shared_events(shared_bench: Bench) -> Iterator[EventWatch]:
    """Give Celery's picture of the shared bench."""
    with EventWatch(shared_bench) as events:
        yield events
