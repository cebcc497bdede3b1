"""A run that lost its workers twice in a row may be what kills them: it is tried apart from others (DESIGN 1)."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from celery.exceptions import Ignore
from worker.conftest import Shop
from worker.kit import HostProcess, until

from turnfleet.store import commands
from turnfleet.store.records import Claim, NotClaimed, Snapshot
from turnfleet_kernel import ModelTurn, PlanSpec, ToolRequest
from turnfleet_kernel.testing import ScriptedModel
from turnfleet_worker import Registry, ToolContext
from turnfleet_worker.apart import Apart

SPEC = PlanSpec(name="p", model="m", tools=("act",))


class Floor:
    """Runs whose one tool waits until it is let go, twice a run."""

    def __init__(self, shop: Shop) -> None:
        self.begun: list[str] = []
        self._gates: dict[str, asyncio.Event] = {}
        registry = Registry()
        turns = [ModelTurn("", tool_requests=(ToolRequest(call_id, "act", {}),)) for call_id in ("first", "second")]
        registry.model("m", ScriptedModel([*turns, "done"]))

        @registry.tool(idempotent=True)
        async def act(context: ToolContext) -> str:
            """Wait."""
            self.begun.append(context.run_id)
            await self.gate(context.run_id, context.call_id).wait()
            return "acted"

        self.shop = replace(shop, registry=registry)

    def gate(self, run_id: str, call_id: str) -> asyncio.Event:
        """Give what a run's call waits for."""
        return self._gates.setdefault(f"{run_id}/{call_id}", asyncio.Event())

    def release(self, run_id: str) -> None:
        """Let both calls of a run end."""
        for call_id in ("first", "second"):
            self.gate(run_id, call_id).set()

    async def suspect(self, run_id: str) -> None:
        """Enqueue a run, and let it lose two workers in a row in the middle of its call."""
        await self.shop.enqueue(SPEC, run_id=run_id)
        claim = await self.shop.claim(run_id)
        first = asyncio.ensure_future(self.shop.invocation(claim).run())
        await self.until_begun(run_id)
        await self.shop.lose(claim)
        first.cancel()
        await asyncio.wait({first})
        await self.shop.lose(await self.shop.claim(run_id))
        self.begun.clear()

    async def until_begun(self, run_id: str) -> None:
        """Wait until a run's tool is at work."""
        await until(lambda: run_id in self.begun)

    async def status(self, run_id: str) -> Snapshot:
        """Look at a run."""
        return await self.shop.executor.execute(commands.status(self.shop.keys, run_id))


@pytest.fixture
def floor(shop: Shop) -> Floor:
    """Give runs that can be held."""
    return Floor(shop)


async def test_only_a_worker_that_is_alone_may_claim_a_suspect(floor: Floor) -> None:
    """Two losses in a row, counted by run id; one that runs others is told so, and nothing has been claimed."""
    await floor.suspect("run")
    keys = floor.shop.keys

    async def claim(*, alone: bool) -> Any:
        command = commands.claim(keys, "run", claim_id="c", worker="w", lease_ms=1000, recorded=True, alone=alone)
        return await floor.shop.executor.execute(command)

    assert await claim(alone=False) == NotClaimed("run", "suspect", "queued")
    assert (await floor.status("run")).losses == 2
    assert isinstance(await claim(alone=True), Claim)


async def test_neighbours_hand_over_and_stay_away_until_the_suspects_journal_moves(
    floor: Floor, redis_url: str
) -> None:
    """While it is tried no other run is at work or claimed here; once it has got somewhere, all run side by side."""
    await floor.suspect("suspect")
    await floor.shop.enqueue(SPEC, run_id="neighbour")
    async with HostProcess(floor.shop, redis_url) as process:
        neighbour = asyncio.ensure_future(process.message("neighbour"))
        await floor.until_begun("neighbour")
        suspect = asyncio.ensure_future(process.message("suspect"))
        await until(lambda: process.host.handing_over)
        # It waits, and is in nobody's hands meanwhile: were this process to die now, it had lost nothing.
        assert (await floor.status("suspect")).state == "queued"
        floor.release("neighbour")
        assert (await neighbour)["state"] == "queued"
        await floor.until_begun("suspect")
        again = asyncio.ensure_future(process.message("neighbour"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(again), 0.3)
        assert (process.host.in_flight, (await floor.status("neighbour")).state) == (1, "queued")
        floor.gate("suspect", "first").set()
        assert (await again)["state"] == "completed"
        assert not suspect.done()
        floor.release("suspect")
        assert (await suspect)["state"] == "completed"
    assert [(await floor.status(name)).losses for name in ("suspect", "neighbour")] == [0, 0]


async def test_a_suspect_does_not_cut_off_a_long_call(floor: Floor, redis_url: str) -> None:
    """Its neighbour does not come to a journal point in time: the suspect goes elsewhere, unharmed and unclaimed."""
    await floor.suspect("suspect")
    await floor.shop.enqueue(SPEC, run_id="neighbour")
    async with HostProcess(floor.shop, redis_url, drain_seconds=0.1) as process:
        neighbour = asyncio.ensure_future(process.message("neighbour"))
        await floor.until_begun("neighbour")
        with pytest.raises(Ignore, match="must be alone"):
            await process.message("suspect")
        status = await floor.status("suspect")
        assert (status.state, status.losses) == ("queued", 2)
        floor.release("neighbour")
        # The neighbour was never handed over: it goes on in the claim that it has.
        assert (await neighbour)["state"] == "completed"
        assert (await floor.status("neighbour")).attempt == 1
        floor.release("suspect")
        assert (await process.message("suspect"))["state"] == "completed"


async def test_a_suspect_that_has_got_somewhere_makes_room_for_the_next(floor: Floor, redis_url: str) -> None:
    """Two suspects are never side by side before both have moved."""
    await floor.suspect("one")
    await floor.suspect("two")
    async with HostProcess(floor.shop, redis_url) as process:
        one = asyncio.ensure_future(process.message("one"))
        await floor.until_begun("one")
        two = asyncio.ensure_future(process.message("two"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(two), 0.3)
        assert floor.begun == ["one"]
        floor.release("two")
        floor.release("one")
        await asyncio.gather(one, two)
        for name in ("one", "two"):
            if (await floor.status(name)).state == "queued":  # handed over to let the other be alone
                await process.message(name)
            assert (await floor.status(name)).state == "completed"


async def test_nobody_waits_behind_a_suspect_for_a_process_that_ends() -> None:
    """A drain lets go of all who wait, so that their messages go back to the queue at once."""
    apart = Apart(60)

    async def suspect() -> bool:
        async with apart.alone("suspect") as alone:
            return alone

    async def neighbour() -> None:
        async with apart.beside():
            await asyncio.Event().wait()

    async def waiting() -> str:
        async with apart.beside():
            return "let go"

    first = asyncio.ensure_future(neighbour())
    await asyncio.sleep(0)
    second, third = asyncio.ensure_future(suspect()), asyncio.ensure_future(waiting())
    await asyncio.sleep(0.05)
    assert (apart.clearing, third.done()) == (True, False)
    apart.close()
    assert (await second, await third) == (False, "let go")
    first.cancel()
    await asyncio.wait({first})


async def test_of_two_suspects_one_waits_for_the_other() -> None:
    """Both were refused while neighbours were at work; they do not get to be alone together."""
    apart, order = Apart(60), []

    async def suspect(name: str, over: asyncio.Event) -> None:
        async with apart.alone(name) as alone:
            order.append((name, alone))
            await over.wait()

    over = asyncio.Event()
    both = [asyncio.ensure_future(suspect("one", over)), asyncio.ensure_future(suspect("two", over))]
    await asyncio.wait(both, timeout=0.1)
    assert order == [("one", True)]
    over.set()
    await asyncio.gather(*both)
    assert order == [("one", True), ("two", True)]
