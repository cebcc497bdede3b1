"""A whole fleet whose store is a Redis Cluster: slots move and a master dies under it; its broker is a plain Redis."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from faults.site import Site
from fleet.conftest import call, steps
from fleet.helpers import check_stream
from support.redis_cluster import RedisCluster
from support.redis_server import RedisServer
from support.waiting import GLANCE_SECONDS, eventually

from turnfleet import Approve, FleetUnavailable, KernelEvent, Run
from turnfleet.store import Keys
from turnfleet_kernel.contracts.events import TERMINAL_KINDS

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster() -> Iterator[RedisCluster]:
    """Give a cluster that the test may break: three masters, a replica each."""
    with RedisCluster(replicas=True) as cluster:
        yield cluster


def follow(run: Run[Any], heard: list[KernelEvent]) -> None:
    """Read a run's events to the end; when its node is away, come back for what follows the last that was heard."""
    while not heard or heard[-1].kind not in TERMINAL_KINDS:
        try:
            heard.extend(run.events(after=heard[-1].index if heard else -1, timeout=60))
        except FleetUnavailable:
            time.sleep(GLANCE_SECONDS)


def test_a_fleet_on_a_cluster(cluster: RedisCluster, own_redis: RedisServer, fleet_name: str) -> None:
    """People decide, readers hear; a slot moves, a master dies: nothing is lost and no effect is repeated."""
    with Site(cluster.url, fleet_name, broker_url=own_redis.url) as site:
        site.worker(concurrency=6)
        site.worker(concurrency=6)

        paid = site.enqueue(prompt=steps([call("pay")], "all done"), run_id="paid")
        (waiting,) = eventually(lambda: list(site.fleet.interrupts().items))
        assert waiting.run_id == "paid"
        paid.resume({waiting.id: Approve()}, by="alice")
        assert paid.result(timeout=60).text == "all done"
        assert site.marks("pay:") == ["pay:paid:call-0-0"]

        runs = [site.insist(f"r{number}") for number in range(20)]
        heard: list[KernelEvent] = []
        reader = threading.Thread(target=follow, args=(runs[0], heard))
        reader.start()
        eventually(lambda: len(site.marks("nap:")) >= 6)
        record = Keys(fleet_name).record("r0")
        source, target = cluster.begin_move(record)
        cluster.move_keys(record, source, target, count=1)
        cluster.end_move(record, source, target)
        assert {run.status().attempts for run in runs} <= {0, 1}

        cluster.masters[0].kill()
        eventually(lambda: cluster.replaced(cluster.masters[0]), what="a replica took over")
        runs += [site.insist(f"later{number}") for number in range(6)]
        site.check(runs, timeout=180)
        # A run whose last write was lost with the master is let go by its worker and taken again, from its journal.
        assert max(run.status().attempts for run in runs) <= 2
        reader.join(60)
        check_stream(heard)
