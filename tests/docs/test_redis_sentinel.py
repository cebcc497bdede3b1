"""The Sentinel section, with a real master, replica and sentinel."""

from pathlib import Path

import pytest
from faults.sentinels import SERVICE, SentinelPair
from support.pages import Shop

pytestmark = pytest.mark.slow


def test_a_fleet_that_is_given_the_sentinels(tmp_path: Path) -> None:
    """Worker and client both find the master by way of the sentinel."""
    assert SERVICE == "shop"
    with (
        SentinelPair() as pair,
        Shop(
            "docs/how-to/redis-sentinel-and-cluster.md",
            tmp_path,
            redis_url=pair.url,
            addresses={"redis+sentinel://localhost:26379/shop/0": pair.url},
            only=("myfleet.py", "worker", "enqueue.py", "what enqueue.py prints"),
        ) as shop,
    ):
        shop.write("myfleet.py")
        with shop.running("worker"):
            shop.python("enqueue.py")
