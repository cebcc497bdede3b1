"""The least that a client needs of a cluster's nodes: the rules that are printed, and what the how-to page adds."""

import asyncio
from contextlib import aclosing
from typing import Any

import pytest
from store.kit import Bench, event
from support.pages import ROOT
from support.redis_cluster import RedisCluster, tell
from support.waiting import LIMIT_SECONDS

from turnfleet.errors import TurnfleetError
from turnfleet.store import Keys, commands
from turnfleet.store.executor import AsyncExecutor
from turnfleet.store.listener import LOOK
from turnfleet.wire.acl import acl_rules

MORE = ("+cluster|slots", "+spublish", "+ssubscribe", "+sunsubscribe")


@pytest.mark.slow
async def test_what_a_worker_needs_besides(fleet_name: str) -> None:
    """With all of it a run is written and heard; without any one it is not."""
    assert f"`{' '.join(MORE)}`" in (ROOT / "docs/how-to/redis-sentinel-and-cluster.md").read_text()
    base, _, selector = acl_rules(Keys(fleet_name))["worker"].partition("(")
    with RedisCluster() as cluster:
        for place, missing in enumerate((None, *MORE[:3])):
            granted = [word for word in MORE if word != missing]
            for server in cluster.masters:
                tell(server, "ACL", "SETUSER", f"u{place}", "on", ">pass", *base.split(), *granted, f"({selector}")
            url = f"redis+cluster://u{place}:pass@127.0.0.1:{cluster.masters[0].port}"
            async with aclosing(AsyncExecutor(url, timeout=2)) as executor:
                # What comes comes before long; what is never to come need not be waited for.
                patience = LIMIT_SECONDS if missing is None else 3
                assert (await works(executor, fleet_name, f"run-{place}", patience)) is (missing is None)


async def works(executor: AsyncExecutor, fleet: str, run_id: str, patience: float) -> bool:
    """Write a run's events and hear them."""
    nobody: Any = None
    bench = Bench(fleet, executor, nobody)
    try:
        claim = await bench.running(run_id)
        async with executor.subscribe(bench.keys.events(run_id)) as heard:
            if await asyncio.wait_for(anext(heard), patience) is not LOOK:
                return False
            await bench(commands.step(bench.keys, claim, seq=1, events=[event(run_id, 0, "usage")]))
            return await asyncio.wait_for(anext(heard), patience) is not LOOK
    except (TurnfleetError, TimeoutError):
        return False
