"""Servers to hurt, and small fleets at work on them."""

from collections.abc import Iterator

import pytest
from faults.site import Site
from support.redis_server import RedisServer


@pytest.fixture
def site(own_redis: RedisServer, fleet_name: str) -> Iterator[Site]:
    """Give a fleet on a server of this test's own."""
    with Site(own_redis.url, fleet_name) as site:
        yield site
