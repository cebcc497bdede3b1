"""Servers to hurt, and small fleets at work on them."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from faults.site import Site
from support.redis_server import RedisServer
from worker.conftest import Shop

from turnfleet.store import Keys
from turnfleet.store.executor import AsyncExecutor


@pytest.fixture
def site(own_redis: RedisServer, fleet_name: str) -> Iterator[Site]:
    """Give a fleet on a server of this test's own."""
    with Site(own_redis.url, fleet_name) as site:
        yield site


@pytest.fixture
async def shop(redis_url: str, fleet_name: str) -> AsyncIterator[Shop]:
    """Give one worker's inside over the tests' own Redis server; what it started has ended with it."""
    executor = AsyncExecutor(redis_url)
    yield Shop(executor, Keys(fleet_name))
    await executor.aclose()
    await asyncio.sleep(0)
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []
