"""A fleet on a cluster: every master is looked at, and the fleet as a whole."""

import pytest
from support.redis_cluster import RedisCluster

from turnfleet.doctor.look import gather


@pytest.mark.slow
def test_each_master_of_a_cluster_is_looked_at(fleet_name: str, own_redis_url: str) -> None:
    """One that is away is named; the others still answer."""
    with RedisCluster() as cluster:
        facts = gather(cluster.url, name=fleet_name, broker_url=own_redis_url, late_seconds=60)
        assert [server.error for server in facts.servers] == [None] * 3
        assert {server.address for server in facts.servers} == {f"127.0.0.1:{s.port}" for s in cluster.masters}
        assert facts.of_fleet.error is None
        cluster.masters[0].kill()
        facts = gather(cluster.url, name=fleet_name, broker_url=own_redis_url, late_seconds=60, timeout=1)
        away = [server.address for server in facts.servers if server.error is not None]
        assert away == [f"127.0.0.1:{cluster.masters[0].port}"]
