"""Both clients on the tests' own Redis, and the worker's part."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from producer.kit import AnyFleet, Stage, client_of, do, stage_of
from support.redis_server import RedisServer

from turnfleet import Fleet


@pytest.fixture
def stage(redis_url: str, fleet_name: str) -> Iterator[Stage]:
    """Play the worker, and look behind, on the session's Redis."""
    yield from stage_of(redis_url, fleet_name)


@pytest.fixture
def own_stage(own_redis: RedisServer, fleet_name: str) -> Iterator[Stage]:
    """Play the worker, and look behind, on a Redis of the test's own."""
    yield from stage_of(own_redis.url, fleet_name)


@pytest.fixture(params=["sync", "async"])
async def fleet(request: pytest.FixtureRequest, redis_url: str, fleet_name: str) -> AsyncIterator[AnyFleet]:
    """Give each client in turn: what one does, the other does."""
    async with client_of(request.param, redis_url, fleet_name) as client:
        yield client


@pytest.fixture
async def another(fleet: AnyFleet, redis_url: str, fleet_name: str) -> AsyncIterator[Callable[..., AnyFleet]]:
    """Give a maker of further clients of the same kind, with other settings; they are closed after the test."""
    made: list[AnyFleet] = []

    def make(**settings: Any) -> AnyFleet:
        made.append(type(fleet)(**{"url": redis_url, "name": fleet_name, **settings}))
        return made[-1]

    yield make
    for client in made:
        await do(client.close if isinstance(client, Fleet) else client.aclose)
