"""Holding a claim: what keeps it, what ends it, and what is left when workers come and go (DESIGN 1)."""

import asyncio
import threading
import time
from dataclasses import replace
from typing import Any

import pytest
from celery.exceptions import Ignore, Reject
from worker.conftest import Shop
from worker.kit import HostProcess, until

from turnfleet.store import commands
from turnfleet.store.executor import SyncExecutor
from turnfleet.store.records import Snapshot, SweepPolicy
from turnfleet_kernel import ModelTurn, PlanSpec, ToolRequest
from turnfleet_kernel.testing import ScriptedModel
from turnfleet_worker import Registry, ToolContext

SPEC = PlanSpec(name="p", model="m", tools=("act", "block"))


class Floor:
    """Runs of a first call that waits, and a second that does not. `first` says which tool the first call is of."""

    def __init__(self, shop: Shop, first: str = "act") -> None:
        self.begun: list[str] = []
        self.go = asyncio.Event()
        registry = Registry()
        turns = [ModelTurn("", tool_requests=(ToolRequest(f"c{n}", name, {}),)) for n, name in ((1, first), (2, "act"))]
        registry.model("m", ScriptedModel([*turns, "done"]))

        @registry.tool
        async def act(context: ToolContext) -> str:
            """Wait to be let go."""
            self.begun.append(context.call_id)
            await self.go.wait()
            return "acted"

        @registry.tool
        async def block(context: ToolContext) -> str:
            """Hold the whole event loop up, as careless tools do."""
            self.begun.append(context.call_id)
            time.sleep(4)  # noqa: ASYNC251 - that is what it plays
            return "blocked"

        self.shop = replace(shop, registry=registry)

    async def status(self, run_id: str = "run") -> Snapshot:
        """Look at a run."""
        return await self.shop.executor.execute(commands.status(self.shop.keys, run_id))


async def test_a_worker_whose_claim_was_taken_stops_before_its_next_effect(shop: Shop, redis_url: str) -> None:
    """Its heartbeat says so: the invocation ends at once, its late writes are refused, the run is the other's."""
    floor = Floor(shop)
    await floor.shop.enqueue(SPEC)
    async with HostProcess(floor.shop, redis_url, heartbeat_seconds=0.1) as process:
        running = asyncio.ensure_future(process.message("run"))
        await until(lambda: floor.begun)
        (invocation,) = process.host._parts.runs._running.values()
        await floor.shop.lose(invocation.claim)
        other = await floor.shop.claim()
        with pytest.raises(Ignore, match="another worker has the run"):
            await asyncio.wait_for(running, 60)
    floor.go.set()
    assert floor.begun == ["c1"]
    assert (await floor.shop.invocation(other).run()).state == "paused"  # c1 is in doubt, and is asked about


async def test_a_worker_that_stops_gives_its_messages_back_and_claims_nothing(shop: Shop, redis_url: str) -> None:
    """What reaches it after the drain began is another worker's: the run stays as it was."""
    floor = Floor(shop)
    await floor.shop.enqueue(SPEC)
    async with HostProcess(floor.shop, redis_url) as process:
        process.host.drain()
        with pytest.raises(Reject) as rejected:
            await process.message("run")
        assert rejected.value.args == ("the worker is stopping", True)  # True: back to its queue
        status = await floor.status()
        assert (status.state, status.attempt, process.host.in_flight) == ("queued", 0, 0)


async def test_a_lease_that_expired_and_that_nobody_took_is_renewed(shop: Shop, redis_url: str) -> None:
    """After an outage longer than a lease the run goes on in the claim that it has: nothing is lost or repeated."""
    floor = Floor(shop)
    await floor.shop.enqueue(SPEC)
    calm: dict[str, Any] = {"lease_seconds": 100, "sweep_seconds": 50, "reoffer_after_seconds": 60}
    async with HostProcess(floor.shop, redis_url, **calm) as process:
        running = asyncio.ensure_future(process.message("run"))
        await until(lambda: floor.begun)
        record = floor.shop.keys.record("run")
        await floor.shop.executor.client.hset(record, "lease", "1")

        async def renewed() -> bool:
            return int(await floor.shop.executor.client.hget(record, "lease") or 0) > 1

        await until(renewed)
        floor.go.set()
        assert (await running)["state"] == "completed"
    assert (floor.begun, (await floor.status()).attempt) == (["c1", "c2"], 1)


async def test_heartbeats_go_on_when_a_tool_blocks_the_event_loop(shop: Shop, redis_url: str) -> None:
    """The loop stands still for twice the lease, and others sweep meanwhile: the claim is kept."""
    floor = Floor(shop, first="block")
    floor.go.set()
    await floor.shop.enqueue(SPEC)
    keys, over = floor.shop.keys, threading.Event()
    lost: list[int] = []

    def sweep_all_the_time() -> None:
        other = SyncExecutor(redis_url)
        policy = SweepPolicy(reoffer_after_ms=60_000, quiet_ms=0)
        while not over.wait(0.05):
            lost.append(other.execute(commands.sweep(keys, keys.shard("run"), policy)).lost)
        other.close()

    sweeper = threading.Thread(target=sweep_all_the_time)
    sweeper.start()
    try:
        settings: dict[str, Any] = {"lease_seconds": 2, "heartbeat_seconds": 0.2, "sweep_seconds": 0.5}
        async with HostProcess(floor.shop, redis_url, **settings) as process:
            assert (await process.message("run"))["state"] == "completed"
    finally:
        over.set()
        sweeper.join()
    status = await floor.status()
    assert (sum(lost), status.attempt, floor.begun) == (0, 1, ["c1", "c2"])
    assert len(lost) > 10, "nobody swept while the loop was blocked"


async def test_a_worker_that_came_and_went_50_times_leaves_nothing_behind(shop: Shop, redis_url: str) -> None:
    """Once its runs have ended: no key without TTL but the fleet's own indexes, no worker entry, no lease."""
    floor = Floor(shop)
    keys, client = floor.shop.keys, floor.shop.executor.client
    for number in range(50):
        run_id = f"run-{number}"
        await floor.shop.enqueue(SPEC, run_id=run_id)
        floor.go.clear()
        floor.begun.clear()
        async with HostProcess(floor.shop, redis_url) as process:
            running = asyncio.ensure_future(process.message(run_id))
            await until(lambda: floor.begun)
            if number % 3 == 0:  # ends here
                floor.go.set()
                await running
            elif number % 3 == 1:  # handed over, and cancelled while it waits
                process.host.drain()
                floor.go.set()
                await running
                await floor.shop.executor.execute(commands.cancel(keys, run_id, reason="stop"))
            else:  # its worker goes at once, in the middle of the call
                await process.stop()
                await asyncio.wait({running})
                await floor.shop.executor.execute(commands.cancel(keys, run_id, reason="stop"))
        state = (await floor.status(run_id)).state
        assert state == ("completed" if number % 3 == 0 else "cancelled")
    indexes = {"s:completed", "s:cancelled", "gone"}  # what ended is taken out of them when its retention is over
    left = set()
    async for name in client.scan_iter(f"*{keys.fleet}*"):
        if await client.ttl(name) == -1:
            left.add(name.decode().rpartition("}:")[2])
    broker = {f"turnfleet.{keys.fleet}", f"_kombu.binding.turnfleet.{keys.fleet}"}
    assert {name for name in left if name.partition("\x06")[0] not in broker} <= indexes
    assert await floor.shop.executor.execute(commands.workers(keys)) == ()
