"""A cancel reaches the run's worker as it is asked for, without waiting for a step or a heartbeat (DESIGN 5)."""

import asyncio
from typing import Any

import pytest
from store.kit import Bench
from support.redis_cluster import RedisCluster, tell
from support.waiting import eventually
from worker.conftest import Shop

from turnfleet.store import commands
from turnfleet.store.executor import AsyncExecutor
from turnfleet_kernel import PlanSpec
from turnfleet_kernel.testing import ScriptedModel
from turnfleet_worker.control import ControlListener


async def test_a_cancel_is_heard_and_other_fleets_cancels_are_not(shop: Shop) -> None:
    """The listener gives the run's id; it hears its own fleet only, also when the fleet's name looks like a pattern."""
    shop.registry.model("m", ScriptedModel(["x"]))
    await shop.enqueue(PlanSpec(name="p", model="m"))
    await shop.claim()
    heard: asyncio.Queue[str] = asyncio.Queue()
    listener = ControlListener(shop.executor, shop.keys, heard.put_nowait)
    listener.start()
    channel = shop.keys.control("ready")
    # Until its subscription has taken effect; each look is a round trip.
    while not await shop.executor.client.publish(channel, b"x"):
        pass
    assert await asyncio.wait_for(heard.get(), 60) == "ready"
    await shop.executor.client.publish(f"{{{shop.keys.fleet}-other}}:c:not-mine", b"x")
    await shop.executor.execute(commands.cancel(shop.keys, "run", reason="stop"))
    assert await asyncio.wait_for(heard.get(), 60) == "run"
    assert heard.empty()
    await listener.stop()


@pytest.mark.slow
async def test_a_cancel_is_heard_from_every_node_of_a_cluster(fleet_name: str) -> None:
    """The worker listens at one node; what is said at the others comes there."""
    with RedisCluster() as cluster:
        executor = AsyncExecutor(cluster.url)
        nobody: Any = None
        bench = Bench(fleet_name, executor, nobody)
        names = {f"r{number}" for number in range(12)}
        for name in names:
            await bench.running(name)
        assert {cluster.node_of(bench.keys.record(name)).port for name in names} == {s.port for s in cluster.masters}
        heard: asyncio.Queue[str] = asyncio.Queue()
        listener = ControlListener(executor, bench.keys, heard.put_nowait)
        listener.start()
        await asyncio.to_thread(eventually, lambda: sum(tell(s, "PUBSUB", "NUMPAT") for s in cluster.masters) == 1)
        for name in names:
            await executor.execute(commands.cancel(bench.keys, name, reason="stop"))
        assert {await asyncio.wait_for(heard.get(), 60) for _ in names} == names
        await listener.stop()
        await executor.aclose()
