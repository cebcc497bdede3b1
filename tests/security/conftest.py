"""A signed fleet on the tests' own Redis."""

from collections.abc import AsyncIterator

import pytest
from security.kit import Site


@pytest.fixture
async def site(redis_url: str, fleet_name: str) -> AsyncIterator[Site]:
    """Give a fleet whose client and worker have keys."""
    site = Site(redis_url, fleet_name)
    yield site
    await site.close()
