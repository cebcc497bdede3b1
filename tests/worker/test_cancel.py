"""A cancel is durable intent, and reaches a run's worker by every way that is left (DESIGN 5)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from celery.exceptions import Ignore
from worker.conftest import Shop
from worker.kit import HostProcess, a_delivery, until

from turnfleet.store import commands
from turnfleet_kernel import Delta, ModelTurn, PlanSpec, ToolRequest
from turnfleet_kernel.testing import ScriptedModel
from turnfleet_worker import Registry, ToolContext
from turnfleet_worker.ending import Verdict

SPEC = PlanSpec(name="p", model="m", tools=("act",))
RACES = 100


class Floor:
    """Runs with two rounds of one call each, which waits to be let go."""

    def __init__(self, shop: Shop) -> None:
        self.begun: list[str] = []
        self.go = asyncio.Event()
        turns = [ModelTurn("", tool_requests=(ToolRequest(f"c{n}", "act", {}),)) for n in (1, 2)]
        registry = Registry()
        registry.model("m", ScriptedModel([*turns, "done"]))

        @registry.tool(approval=lambda _: False)
        async def act(context: ToolContext) -> str:
            """Wait."""
            self.begun.append(f"{context.run_id}/{context.call_id}")
            await self.go.wait()
            return "acted"

        @registry.tool(approval=True)
        async def ask_first() -> str:
            """Wait for a person."""
            return "asked"

        registry.model("asking", ScriptedModel([ModelTurn("", tool_requests=(ToolRequest("c", "ask_first", {}),))]))
        self.shop = replace(shop, registry=registry)

    async def cancel(self, run_id: str = "run") -> bool:
        """Cancel a run as a client does."""
        return (await self.shop.executor.execute(commands.cancel(self.shop.keys, run_id, reason="stop"))).accepted

    async def state(self, run_id: str = "run") -> str:
        """Give the state of a run."""
        return (await self.shop.executor.execute(commands.status(self.shop.keys, run_id))).state


@pytest.fixture
def floor(shop: Shop) -> Floor:
    """Give runs that can be held."""
    return Floor(shop)


async def test_without_pubsub_the_heartbeat_carries_a_cancel(floor: Floor, redis_url: str) -> None:
    """The control channel is down and the run is inside a long call: it ends within a heartbeat."""
    await floor.shop.enqueue(SPEC)
    async with HostProcess(floor.shop, redis_url, heartbeat_seconds=0.1) as process:
        await process.host._parts.control.stop()
        running = asyncio.ensure_future(process.message("run"))
        await until(lambda: floor.begun)
        assert await floor.cancel()
        with pytest.raises(Ignore, match="the run was cancelled"):
            await asyncio.wait_for(running, 60)
        assert await floor.state() == "cancelled"
    assert (await floor.shop.kinds())[-1] == "cancelled"


async def test_pubsub_alone_carries_a_cancel_into_a_long_call(floor: Floor, redis_url: str) -> None:
    """No heartbeat comes and no step is written meanwhile: the published cancel ends the run."""
    await floor.shop.enqueue(SPEC)
    async with HostProcess(floor.shop, redis_url, lease_seconds=120, heartbeat_seconds=50) as process:
        running = asyncio.ensure_future(process.message("run"))
        await until(lambda: floor.begun)
        redis, nobodys = floor.shop.executor.client, floor.shop.keys.control("nobody")
        await until(lambda: redis.publish(nobodys, b"x"))  # until the worker listens
        assert await floor.cancel()
        with pytest.raises(Ignore, match="the run was cancelled"):
            await asyncio.wait_for(running, 20)
        assert await floor.state() == "cancelled"
    assert floor.begun == ["run/c1"]


async def test_without_pubsub_and_heartbeat_the_next_step_carries_a_cancel(floor: Floor, redis_url: str) -> None:
    """Nothing is heard but the answer of the script that journals a start: the call is not made."""
    await floor.shop.enqueue(SPEC)
    async with HostProcess(floor.shop, redis_url, lease_seconds=120, heartbeat_seconds=50) as process:
        await process.host._parts.control.stop()
        running = asyncio.ensure_future(process.message("run"))
        await until(lambda: floor.begun)
        assert await floor.cancel()
        floor.go.set()
        with pytest.raises(Ignore, match="the run was cancelled"):
            await asyncio.wait_for(running, 60)
        assert await floor.state() == "cancelled"
    assert floor.begun == ["run/c1"]
    starts = await floor.shop.executor.execute(commands.journal(floor.shop.keys, "run"))
    assert [entry["id"] for entry in starts if entry["k"] == "start"] == ["c1"]


async def test_a_cancellation_that_is_swallowed_is_made_again_before_the_next_call(floor: Floor) -> None:
    """A library in a model eats the CancelledError, as some do: the call that the turn asks for does not start."""
    begun = asyncio.Event()

    class Swallowing(ScriptedModel):
        async def invoke(self, transcript: Any) -> ModelTurn:
            begun.set()
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            return await super().invoke(transcript)

        def stream(self, transcript: Any) -> Any:
            return Whole(self, transcript)

    class Whole:
        def __init__(self, model: Swallowing, transcript: Any) -> None:
            self.model, self.transcript, self.turn = model, transcript, ModelTurn()

        async def deltas(self) -> AsyncIterator[Delta]:
            self.turn = await self.model.invoke(self.transcript)
            yield Delta("text", "so be it")

        def result(self) -> ModelTurn:
            return self.turn

    floor.shop.registry.model("deaf", Swallowing([ModelTurn("", tool_requests=(ToolRequest("c", "act", {}),)), "done"]))
    await floor.shop.enqueue(SPEC.model_copy(update={"model": "deaf"}))
    invocation = floor.shop.invocation(await floor.shop.claim())
    running = asyncio.ensure_future(invocation.run())
    await begun.wait()
    assert await floor.cancel()
    invocation.stop(Verdict.CANCEL)
    assert (await asyncio.wait_for(running, 60)).state == "cancelled"
    assert floor.begun == []


async def test_a_cancel_and_a_completion_agree_on_one_end(floor: Floor) -> None:
    """100 races of real invocations with a cancel: one terminal event, and status and answer agree with it."""
    floor.go.set()
    seen = set()
    for number in range(RACES):
        run_id = f"run-{number}"
        await floor.shop.enqueue(SPEC, run_id=run_id)
        invocation = floor.shop.invocation(await floor.shop.claim(run_id))
        running = asyncio.ensure_future(invocation.run())

        async def cancel(after: int, run_id: str, invocation: Any) -> bool:
            # Later in each race than in the one before: from before the first step; in the last, after the last step.
            for _ in range(after):
                await floor.shop.executor.client.ping()
            accepted = await floor.cancel(run_id)
            invocation.stop(Verdict.CANCEL)
            return accepted

        if number == RACES - 1:
            await asyncio.wait({running})
        accepted, left = await asyncio.gather(cancel(number // 2, run_id, invocation), running)
        state = await floor.state(run_id)
        kinds = await floor.shop.kinds(run_id)
        assert state == ("cancelled" if accepted else "completed") == left.state
        assert [kind for kind in kinds if kind in {"done", "cancelled", "error"}] == kinds[-1:]
        assert kinds[-1] == {"cancelled": "cancelled", "completed": "done"}[state]
        seen.add(state)
    assert seen == {"cancelled", "completed"}, "the races were all won by the same side: they were none"


async def test_a_revoke_cancels_a_run_that_waits_for_a_worker(floor: Floor, redis_url: str) -> None:
    """No message has to arrive for that: the record is cancelled when a worker hears of the revoke."""
    await floor.shop.enqueue(SPEC)
    async with HostProcess(floor.shop, redis_url) as process:
        await process.host.revoke("run")
        assert await floor.state() == "cancelled"
        with pytest.raises(Ignore):
            await process.message("run")
    assert floor.begun == []
    assert await floor.shop.kinds() == ["cancelled"]


async def test_a_revoke_cancels_a_run_that_waits_for_people_by_any_of_its_task_ids(
    floor: Floor, redis_url: str
) -> None:
    """`run` and `run:2` are the same run; an id that it never had is nobody's, and so is what is no run's at all."""
    spec = PlanSpec(name="p", model="asking", tools=("ask_first",))
    for run_id in ("run", "later"):
        await floor.shop.enqueue(spec, run_id=run_id)
    async with HostProcess(floor.shop, redis_url) as process:
        for run_id in ("run", "later"):
            assert (await process.message(run_id))["state"] == "paused"
        for stranger in ("run:7", "no-such-run", "no such id", "run:", ":2", "run:two", "5f0c1c9e-user-task"):
            await process.host.revoke(stranger)
        assert await floor.state() == "paused"
        await process.host.revoke("run")
        assert await floor.state() == "cancelled"
        await floor.shop.executor.client.hset(floor.shop.keys.record("later"), "offers", "2")
        await process.host.revoke("later:2")
        assert await floor.state("later") == "cancelled"


async def test_a_terminate_before_the_claim_is_recorded(floor: Floor, redis_url: str) -> None:
    """The coroutine is cut off while it waits to claim: the run is cancelled all the same."""
    await floor.shop.enqueue(SPEC)
    async with HostProcess(floor.shop, redis_url) as process:
        async with process.host._parts.apart.alone("another"):
            delivery = a_delivery("run")
            waiting = asyncio.ensure_future(process.message("run", delivery))
            await asyncio.wait({waiting}, timeout=0.1)
            delivery.cancel()
            waiting.cancel()
            await asyncio.wait({waiting})
        assert waiting.cancelled()
    assert await floor.state() == "cancelled"
