"""The master of a Sentinel-managed pair dies, its replica takes over, and the fleet follows."""

import asyncio
from collections.abc import Iterator

import pytest
from faults.sentinels import SentinelPair
from faults.site import PLAN, WHOLE, Site
from fleet.helpers import check_stream
from support.waiting import eventually

from turnfleet import AsyncFleet, AsyncRun, EventsLost, KernelEvent


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
        eventually(pair.promoted, what="the replica is promoted")
        runs += [site.insist(f"later{each}") for each in range(4)]
        site.check(runs, timeout=180)
        # A run whose last write was lost with the master is let go by its worker and taken again, from its journal.
        assert max(run.status().attempts for run in runs) <= 2


@pytest.mark.slow
async def test_whoever_waits_for_a_run_waits_through_a_failover(pair: SentinelPair, fleet_name: str) -> None:
    """Result and events, with either client: no error in between, and nothing is left open."""
    with Site(pair.url, fleet_name) as site:
        site.worker()
        async with AsyncFleet(pair.url, name=fleet_name, timeout=2, poll_interval=0.5) as fleet:
            run = await fleet.enqueue(PLAN, WHOLE)
            following = asyncio.ensure_future(every_event(run))
            results = [
                asyncio.ensure_future(run.result(timeout=90)),
                asyncio.ensure_future(asyncio.to_thread(site.fleet.run(run.run_id).result, timeout=90)),
            ]
            await asyncio.to_thread(eventually, lambda: site.marks("nap:"))
            pair.master.kill()
            assert [outcome.text for outcome in await asyncio.gather(*results)] == ["all done"] * 2
            check_stream(await following)


async def every_event(run: AsyncRun[object]) -> list[KernelEvent]:
    """Read a run to its end; from the beginning again if the new master lacks what was read from the old one."""
    while True:
        try:
            return [event async for event in run.events(timeout=90)]
        except EventsLost:
            continue
