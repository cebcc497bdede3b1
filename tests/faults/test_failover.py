"""The master of a Sentinel-managed pair dies, its replica takes over, and the fleet follows."""

from collections.abc import Iterator

import pytest
from faults.sentinels import SentinelPair
from faults.site import PLAN, WHOLE, Site
from support.waiting import eventually
from worker.kit import until

from turnfleet import AsyncFleet
from turnfleet.errors import FleetUnavailable


@pytest.fixture
def pair() -> Iterator[SentinelPair]:
    """Give a pair of servers and their sentinel."""
    with SentinelPair() as pair:
        yield pair


@pytest.mark.slow
def test_a_fleet_follows_its_master(pair: SentinelPair, fleet_name: str) -> None:
    """Store and broker move; what ran goes on, what was queued is offered again, and no effect is repeated."""
    with Site(pair.url, fleet_name) as site:
        site.worker(concurrency=6)
        site.worker(concurrency=6)
        runs = [site.insist(f"r{each}") for each in range(20)]
        eventually(lambda: len(site.marks("nap:")) >= 6)
        pair.master.kill()
        eventually(pair.promoted, 30, what="the replica is promoted")
        runs += [site.insist(f"later{each}") for each in range(4)]
        site.check(runs, timeout=90)
        # A run whose last write was lost with the master is let go by its worker and taken again, from its journal.
        assert max(run.status().attempts for run in runs) <= 2


@pytest.mark.slow
async def test_a_client_with_await_follows_it_too(pair: SentinelPair, fleet_name: str) -> None:
    """The same URL for `AsyncFleet`: unavailable, promptly, until there is a master; nothing is left open."""
    with Site(pair.url, fleet_name) as site:
        site.worker()
        async with AsyncFleet(pair.url, name=fleet_name, timeout=2, poll_interval=0.5) as fleet:
            run = await fleet.enqueue(PLAN, WHOLE)
            eventually(lambda: site.marks("nap:"))
            pair.master.kill()

            async def ended() -> bool:
                try:
                    return (await run.result(timeout=60)).text == "all done"
                except FleetUnavailable:
                    return False

            await until(ended, 60)
