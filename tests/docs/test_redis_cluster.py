"""The Cluster section, with three real masters and a plain Redis for the broker."""

from pathlib import Path

import pytest
from support.certificates import authority_or_skip
from support.pages import Shop
from support.redis_cluster import RedisCluster

pytestmark = pytest.mark.slow


def test_a_fleet_on_a_cluster(tmp_path: Path, own_redis_url: str) -> None:
    """Worker, client and command line find the run at its node, the message at the broker."""
    with (
        RedisCluster() as cluster,
        Shop(
            "docs/how-to/redis-sentinel-and-cluster.md",
            tmp_path,
            redis_url=own_redis_url,
            addresses={"redis+cluster://localhost:7000,localhost:7001": cluster.url},
            only=(
                "on_a_cluster.py",
                "a worker of the cluster",
                "enqueue_on_a_cluster.py",
                "what enqueue_on_a_cluster.py prints",
                "the runs of the cluster",
            ),
        ) as shop,
    ):
        shop.write("on_a_cluster.py")
        with shop.running("a worker of the cluster"):
            shop.python("enqueue_on_a_cluster.py")
            assert "completed" in shop.shell("the runs of the cluster")


def test_a_cluster_over_tls(tmp_path: Path, own_redis_url: str) -> None:
    """The program as it is written, with this test's nodes and certificates."""
    written = "rediss+cluster://localhost:7000,localhost:7001?ssl_ca_certs=ca.pem"
    with (
        RedisCluster(authority=authority_or_skip(tmp_path)) as cluster,
        Shop(
            "docs/how-to/redis-sentinel-and-cluster.md",
            tmp_path,
            redis_url=own_redis_url,
            addresses={written: cluster.url},
            only=("cluster_tls.py", "what cluster_tls.py prints"),
        ) as shop,
    ):
        shop.python("cluster_tls.py")
