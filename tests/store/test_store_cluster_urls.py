"""What a cluster's URL says, what a node says about the cluster, and a cluster that does not answer."""

import pytest

from turnfleet import Fleet
from turnfleet.errors import FleetUnavailable
from turnfleet.store import Keys, commands
from turnfleet.store.executor import AsyncExecutor, SyncExecutor
from turnfleet.store.place import address, cluster_place
from turnfleet.store.topology import Topology, read_topology, to_ask
from turnfleet_worker import Registry, create_app


def test_a_clusters_url_names_some_of_its_nodes() -> None:
    """One that answers is enough; user, password and TLS options go to every node."""
    place = cluster_place("rediss+cluster://me:p%40ss@a:1,b,[::1]:3?ssl_ca_certs=/ca.pem")
    assert place is not None
    assert place.nodes == (("a", 1), ("b", 6379), ("::1", 3))
    assert place.url_of(("c", 7)) == "rediss://me:p%40ss@c:7/0?ssl_ca_certs=/ca.pem"
    assert cluster_place("redis://a") is None
    assert address("redis+cluster://me:secret@a:1,b") == "the cluster of a:1, b:6379"


@pytest.mark.parametrize("url", ["redis+cluster://", "redis+cluster://a/1", "redis+cluster://:5"])
def test_a_clusters_url_that_makes_no_sense(url: str) -> None:
    """Said when the executor is made, not when it is used."""
    with pytest.raises(ValueError, match="URL"):
        SyncExecutor(url)


def test_a_topology_is_what_one_node_says() -> None:
    """A node that does not know its own address stands under the one that was asked."""
    reply = [[0, 8191, [b"", 7000, b"id"], [b"r", 1, b"id"]], [8192, 16383, [b"b", 7001, b"id"]]]
    topology = read_topology(reply, ("a", 1))
    assert topology.masters == (("a", 7000), ("b", 7001))
    assert topology.master("{foo}x") == ("b", 7001)  # slot 12182
    assert topology.master(b"{foo}") == topology.master("foo")
    assert Topology().master("foo") is None
    assert to_ask(topology, [("b", 7001), ("seed", 1)]) == (("a", 7000), ("b", 7001), ("seed", 1))


def test_a_cluster_is_no_broker() -> None:
    """Said when a client or a worker's app is made, with what to do instead."""
    url = "redis+cluster://127.0.0.1:7000"
    with pytest.raises(ValueError, match=r"cannot be the broker.*Give the broker's URL apart"):
        Fleet(url)
    with pytest.raises(ValueError, match="cannot be the broker"):
        create_app(Registry(), url)
    create_app(Registry(), url, broker_url="redis://127.0.0.1:6379/0")
    Fleet(url, broker_url="amqp://127.0.0.1").close()


async def test_a_cluster_that_does_not_answer_is_unavailable() -> None:
    """Every node of the URL is tried, and named."""
    executor = AsyncExecutor("redis+cluster://127.0.0.1:1,127.0.0.1:2", timeout=0.5)
    with pytest.raises(FleetUnavailable, match=r"the cluster of 127\.0\.0\.1:1, 127\.0\.0\.1:2"):
        await executor.execute(commands.clock(Keys("f")))
    with pytest.raises(FleetUnavailable):
        SyncExecutor("redis+cluster://127.0.0.1:1", timeout=0.5).execute(commands.clock(Keys("f")))
    await executor.aclose()
