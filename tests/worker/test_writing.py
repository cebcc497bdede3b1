"""What leaves for the store when: everything of a run once, in order, and in as few calls as can be."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeVar

from worker.conftest import Shop
from worker.kit import WRITES, until

from turnfleet.store import Command, commands
from turnfleet.store.executor import AsyncExecutor
from turnfleet.store.records import Claim, Offer
from turnfleet_kernel import ModelTurn, Phase, PlanSpec, Stage, StageResult, ToolRequest, UsageDelta
from turnfleet_kernel.frame import StageFrame
from turnfleet_kernel.testing import ScriptedModel
from turnfleet_worker.writer import RunWriter

T = TypeVar("T")
SPEC = PlanSpec(name="p", model="m", tools=("echo",))


class WatchedExecutor(AsyncExecutor):
    """Remembers which writes it was given; `open` lets them leave."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.scripts: list[str] = []
        self.open = asyncio.Event()
        self.open.set()

    async def execute(self, command: Command[T]) -> T:
        """Execute, once it may leave."""
        if command.script in WRITES:
            self.scripts.append(command.script)
            await self.open.wait()
        return await super().execute(command)


@asynccontextmanager
async def watched(redis_url: str) -> AsyncIterator[WatchedExecutor]:
    """Open such an executor."""
    executor = WatchedExecutor(redis_url)
    try:
        yield executor
    finally:
        await executor.aclose()


def writer_of(shop: Shop, executor: AsyncExecutor, claim: Claim) -> RunWriter:
    """Give the writer of a claim that nothing goes wrong with."""
    nothing: Any = lambda _: None  # noqa: E731
    return RunWriter(executor, shop.keys, claim.ref, seq=claim.seq, on_cancel=nothing, on_lost=nothing)


def text_event(index: int) -> dict[str, Any]:
    """Give an event."""
    return {"run_id": "run", "index": index, "kind": "text_delta", "time": 1.0, "text": "x"}


async def test_a_run_of_one_turn_is_one_write(shop: Shop, redis_url: str) -> None:
    """What the model said, the events and the end leave together: one script, one message, one entry in the log."""
    shop.registry.model("m", ScriptedModel([ModelTurn("two words", UsageDelta(1, 1, 1))]))
    await shop.enqueue(PlanSpec(name="p", model="m"))
    async with watched(redis_url) as executor:
        left = await replace(shop, executor=executor).invocation(await shop.claim()).run()
    assert (left.state, executor.scripts) == ("completed", ["finish"])
    assert await shop.executor.client.xlen(shop.keys.events("run")) == 1
    journal = await shop.executor.execute(commands.journal(shop.keys, "run"))
    assert [entry["k"] for entry in journal] == ["opened", "turn"]


async def test_a_tool_call_costs_two_writes_more(shop: Shop, redis_url: str) -> None:
    """One before it starts, one with what it gave: 2 + 2R calls for R rounds, the claim among them (DESIGN 9)."""
    call = ModelTurn("", tool_requests=(ToolRequest("c1", "echo", {}),))
    shop.registry.model("m", ScriptedModel([call, "done"]))

    @shop.registry.tool
    async def echo() -> str:
        """Answer."""
        return "hi"

    await shop.enqueue(SPEC)
    async with watched(redis_url) as executor:
        left = await replace(shop, executor=executor).invocation(await shop.claim()).run()
    assert left.state == "completed"
    assert executor.scripts[-1] == "finish"
    assert executor.scripts.count("step") <= 2


async def test_a_turn_is_written_before_a_stage_that_takes_its_time_after_it(shop: Shop) -> None:
    """Only the run's last event lets what waits stay for the end: a crash in a slow last stage buys no turn again."""
    shop.registry.model("m", ScriptedModel(["done"]))
    seen: list[str] = []

    async def slow(frame: StageFrame) -> StageResult | None:
        async def turn_is_there() -> bool:
            journal = await shop.executor.execute(commands.journal(shop.keys, "run"))
            seen[:] = [entry["k"] for entry in journal]
            return "turn" in seen

        del frame
        await until(turn_is_there)
        return None

    shop.registry.stage("slow", lambda _settings: Stage("slow", Phase.FINALIZE, slow))
    await shop.enqueue(PlanSpec(name="p", model="m", stages=("slow",)))
    assert (await shop.work()).state == "completed"
    assert seen == ["opened", "turn"]


async def test_events_do_not_wait_for_an_end_that_does_not_come(shop: Shop) -> None:
    """Background work may keep a run from ending although its last event is made: readers get the others."""
    await shop.enqueue(SPEC)
    writer = writer_of(shop, shop.executor, await shop.claim())
    writer.event(text_event(0))
    writer.expect_end()

    async def is_there() -> bool:
        return bool(await shop.executor.client.xlen(shop.keys.events("run")))

    await until(is_there)
    await writer.abandon()


async def test_a_call_that_was_never_let_go_leaves_no_start(shop: Shop, redis_url: str) -> None:
    """A run handed back before the start of a call was sent has nothing in doubt: nobody is asked about it."""
    await shop.enqueue(SPEC)
    claim = await shop.claim()
    async with watched(redis_url) as executor:
        writer = writer_of(shop, executor, claim)
        executor.open.clear()
        writer.entry({"k": "turn", "text": ""})
        await until(lambda: executor.scripts)
        waiting = asyncio.ensure_future(writer.effect({"k": "start", "id": "c1"}))
        await asyncio.sleep(0)
        waiting.cancel()
        concluding = asyncio.ensure_future(
            writer.conclude(
                lambda seq, entries, events: commands.release(
                    shop.keys, claim.ref, seq=seq, entries=entries, events=events
                )
            )
        )
        executor.open.set()
        assert isinstance(await concluding, Offer)
        await writer.abandon()
    journal = await shop.executor.execute(commands.journal(shop.keys, "run"))
    assert [entry["k"] for entry in journal] == ["turn"]
