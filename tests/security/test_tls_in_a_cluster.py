"""`rediss+cluster://`: every node over TLS, known by the name in its certificate, to clients that have their own."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from security.journey import PLAN, Journey
from support.certificates import HOST, Authority, authority_or_skip
from support.redis_cluster import RedisCluster

from turnfleet import AsyncFleet, Fleet, FleetUnavailable
from turnfleet.doctor.look import gather

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Give the authority that everybody here trusts."""
    return authority_or_skip(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def cluster(authority: Authority) -> Iterator[RedisCluster]:
    """Give three masters."""
    with RedisCluster(authority=authority) as cluster:
        yield cluster


def test_everything_that_connects(cluster: RedisCluster, redis_url: str, fleet_name: str) -> None:
    """A run from enqueue to result: events as they come, a pause, both clients, a worker; the doctor sees each node."""
    Journey(cluster.url, fleet_name, broker_url=redis_url).works()
    facts = gather(cluster.url, name=fleet_name, broker_url=redis_url, late_seconds=60)
    assert [server.error for server in facts.servers] == [None] * 3
    assert {each.address for each in facts.servers} == {f"{HOST}:{cluster.port_of(each)}" for each in cluster.masters}


def test_nodes_that_cannot_prove_who_they_are_are_refused(
    cluster: RedisCluster, authority: Authority, redis_url: str, fleet_name: str, tmp_path: Path
) -> None:
    """An unknown authority, none, another host's name: by both clients, with words that say what it is."""
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    mine = authority.url_options
    for url in (
        cluster.secured(mine.replace(str(authority.ca), f"{tmp_path}/other.pem")),
        cluster.secured(mine.partition("&")[2]),
        cluster.secured(mine, host="127.0.0.1"),
    ):
        with (
            Fleet(url, name=fleet_name, broker_url=redis_url, timeout=2) as fleet,
            pytest.raises(FleetUnavailable, match="TLS certificate of the fleet's Redis"),
        ):
            fleet.enqueue(PLAN, "please")
        with pytest.raises(FleetUnavailable, match="TLS certificate of the fleet's Redis"):
            asyncio.run(_look(url, fleet_name, redis_url))


async def _look(url: str, name: str, broker_url: str) -> None:
    async with AsyncFleet(url, name=name, broker_url=broker_url, timeout=2) as fleet:
        await fleet.workers()
