"""One suite, three ways to run it.

Real Redis with await and without it, and fakeredis: users' own tests and the last-resort embedded server run on
fakeredis, so the same scripts must mean the same there.
"""

from collections.abc import AsyncIterator

import fakeredis
import pytest
import redis.asyncio
from store.kit import Bench

from turnfleet.store.executor import AsyncExecutor, SyncExecutor


@pytest.fixture(params=["redis", "redis without await", "fakeredis"])
async def bench(request: pytest.FixtureRequest, fleet_name: str) -> AsyncIterator[Bench]:
    """Give a bench; afterwards assert that TTLs and indexes are as they must be (DESIGN 1, "Keys")."""
    if request.param == "fakeredis":
        client = fakeredis.FakeAsyncRedis()
        bench = Bench(fleet_name, AsyncExecutor(client), client)
        yield bench
        await bench.check()
        await client.aclose()
        return
    url = request.getfixturevalue("redis_url")
    async with redis.asyncio.Redis.from_url(url) as look:
        executor = AsyncExecutor(url) if request.param == "redis" else SyncExecutor(url)
        bench = Bench(fleet_name, executor, look)
        yield bench
        await bench.check()
        if isinstance(executor, SyncExecutor):
            executor.close()
        else:
            await executor.aclose()


@pytest.fixture
async def real(redis_url: str, fleet_name: str) -> AsyncIterator[Bench]:
    """Give a bench on the real server with await: races and connections are about nothing else."""
    async with redis.asyncio.Redis.from_url(redis_url) as look:
        executor = AsyncExecutor(redis_url)
        bench = Bench(fleet_name, executor, look)
        yield bench
        await bench.check()
        await executor.aclose()
