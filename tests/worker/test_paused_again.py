"""A round that pauses a second time keeps what people decided in the first (HK-3, HK-5)."""

import asyncio

from worker.conftest import Shop
from worker.kit import dying_worker, outcome

from turnfleet.store import commands
from turnfleet_kernel import ModelTurn, PlanSpec, ToolRequest
from turnfleet_kernel.testing import ScriptedModel
from turnfleet_worker import Registry, ToolContext

REJECT = {"kind": "reject", "reason": "not now"}
SPEC = PlanSpec(name="p", model="m", tools=("sell", "ship", "ask"))


class Sales:
    """What was sold and shipped, over all the workers of a test."""

    def __init__(self, *calls: ToolRequest) -> None:
        self.made: list[str] = []
        self.holding = 0
        self.held = asyncio.Event()
        self._calls = calls

    def stock(self, shop: Shop) -> Shop:
        """Give the inside of another worker process of the same fleet."""
        registry = Registry()
        registry.model("m", ScriptedModel([ModelTurn("", stop_reason="tool_calls", tool_requests=self._calls), "sold"]))

        @registry.tool(approval=True)
        async def sell(item: str, context: ToolContext) -> str:
            """Sell, if a person agrees."""
            self.made.append(context.call_id)
            return f"sold {item}"

        @registry.tool
        async def ship(item: str, context: ToolContext) -> str:
            """Ship, or be held up until the worker is gone."""
            if self.holding:
                self.holding -= 1
                if not self.holding:
                    self.held.set()
                await asyncio.Event().wait()
            self.made.append(context.call_id)
            return f"shipped {item}"

        return Shop(shop.executor, shop.keys, registry, shop.draining, shop.numbers)


async def interrupts(shop: Shop) -> list[str]:
    """Give the ids of what the run waits for."""
    status = await shop.executor.execute(commands.status(shop.keys, "run"))
    return [each.id for each in status.interrupts if each.open]


async def values(shop: Shop) -> list[tuple[str, object, object]]:
    """Give each call's name, value and error, as the model has seen them."""
    return [(each["name"], each["value"], each["error"]) for each in (await outcome(shop, "run"))["tool_outcomes"]]


async def test_a_rejection_is_kept_when_a_sibling_asks_after_it(shop: Shop) -> None:
    """One round: a call that a person rejects, then one that puts a question. Nobody is asked twice."""
    sales = Sales(ToolRequest("s1", "sell", {"item": "tea"}), ToolRequest("q1", "ask", {"question": "why?"}))
    await shop.enqueue(SPEC)
    assert (await sales.stock(shop).work()).state == "paused"
    assert await interrupts(shop) == ["approval:s1"]
    await shop.decide(first=REJECT)
    assert (await sales.stock(shop).work()).state == "paused"
    assert await interrupts(shop) == ["question:q1"]
    await shop.decide(first={"kind": "answer", "value": "because"})
    assert (await sales.stock(shop).work()).state == "completed"
    assert await values(shop) == [("sell", None, "rejected by a person: not now"), ("ask", "because", None)]
    assert sales.made == []


async def lose_in(sales: Sales, shop: Shop, redis_url: str, *, calls: int) -> None:
    """Kill a worker while this many calls of `ship` are at work: their starts are journaled, no receipt is."""
    sales.holding, sales.held = calls, asyncio.Event()
    claim = await shop.claim()
    async with dying_worker(sales.stock(shop), redis_url, claim, writes=1_000) as (dying, task):
        await sales.held.wait()
        dying.left = 0
        await shop.lose(claim)
        task.cancel()
        await dying.dead.wait()


async def test_what_is_cleared_up_stays_so_when_a_sibling_is_lost_again(shop: Shop, redis_url: str) -> None:
    """Two calls in doubt: "it happened" and "call it". That call is lost again: it alone is asked about again."""
    sales = Sales(ToolRequest("a", "ship", {"item": "tea"}), ToolRequest("b", "ship", {"item": "milk"}))
    await shop.enqueue(SPEC)
    await lose_in(sales, shop, redis_url, calls=2)
    assert (await sales.stock(shop).work()).state == "paused"
    assert await interrupts(shop) == ["in_doubt:a", "in_doubt:b"]
    await shop.decide(first={"kind": "approve", "value": "it was"}, second={"kind": "retry"})
    await lose_in(sales, shop, redis_url, calls=1)
    assert (await sales.stock(shop).work()).state == "paused"
    assert await interrupts(shop) == ["in_doubt:b#2"]
    await shop.decide(first={"kind": "retry"})
    assert (await sales.stock(shop).work()).state == "completed"
    assert await values(shop) == [("ship", "it was", None), ("ship", "shipped milk", None)]
    assert sales.made == ["b"]
