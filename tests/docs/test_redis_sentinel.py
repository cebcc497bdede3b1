"""The Sentinel section, with a real master, replica and sentinel."""

from pathlib import Path

import pytest
from faults.sentinels import SERVICE, SentinelPair
from support.certificates import authority_or_skip
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


def test_a_fleet_that_is_given_the_sentinels_over_tls(tmp_path: Path) -> None:
    """The program as it is written, with this test's passwords and certificates."""
    with SentinelPair(authority_or_skip(tmp_path)) as pair:
        written = "rediss+sentinel://:secret@localhost:26379/shop/0?sentinel_password=hush&ssl_ca_certs=ca.pem"
        with Shop(
            "docs/how-to/redis-sentinel-and-cluster.md",
            tmp_path,
            addresses={written: pair.url},
            only=("sentinel_tls.py", "what sentinel_tls.py prints"),
        ) as shop:
            shop.python("sentinel_tls.py")
