"""One suite, five ways to run it.

Real Redis and a real cluster, each with await and without it, and fakeredis: users' own tests and the last-resort
embedded server run on fakeredis, so the same scripts must mean the same there.
"""

from collections.abc import AsyncIterator, Iterator
from typing import cast

import fakeredis
import pytest
import redis.asyncio
from store.kit import Bench
from support.redis_cluster import RedisCluster

from turnfleet.store.executor import AsyncExecutor, SyncExecutor


@pytest.fixture(scope="session")
def cluster() -> Iterator[RedisCluster]:
    """Give a cluster of three masters."""
    with RedisCluster() as cluster:
        yield cluster


WAYS = ["redis", "redis without await", "fakeredis", "cluster", "cluster without await"]


@pytest.fixture(params=[pytest.param(way, marks=pytest.mark.slow) if "cluster" in way else way for way in WAYS])
async def bench(request: pytest.FixtureRequest, fleet_name: str) -> AsyncIterator[Bench]:
    """Give a bench; afterwards assert that TTLs and indexes are as they must be (DESIGN 1, "Keys")."""
    if request.param == "fakeredis":
        client = fakeredis.FakeAsyncRedis()
        bench = Bench(fleet_name, AsyncExecutor(client), client)
        yield bench
        await bench.check()
        await client.aclose()
        return
    clustered = request.param.startswith("cluster")
    url = request.getfixturevalue("cluster").url if clustered else request.getfixturevalue("redis_url")
    async with looking(url) as look:
        executor = SyncExecutor(url) if "without" in request.param else AsyncExecutor(url)
        bench = Bench(fleet_name, executor, look)
        yield bench
        await bench.check()
        if isinstance(executor, SyncExecutor):
            executor.close()
        else:
            await executor.aclose()


def looking(url: str) -> redis.asyncio.Redis:
    """Give a client to look behind with; redis-py's own for a cluster, which has the same commands."""
    if not url.startswith("redis+cluster"):
        return redis.asyncio.Redis.from_url(url)
    port = int(url.rpartition(":")[2])
    return cast("redis.asyncio.Redis", redis.asyncio.RedisCluster("127.0.0.1", port))


@pytest.fixture
async def real(redis_url: str, fleet_name: str) -> AsyncIterator[Bench]:
    """Give a bench on the real server with await: races and connections are about nothing else."""
    async with redis.asyncio.Redis.from_url(redis_url) as look:
        executor = AsyncExecutor(redis_url)
        bench = Bench(fleet_name, executor, look)
        yield bench
        await bench.check()
        await executor.aclose()
