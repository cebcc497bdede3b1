"""Between a person's decision and its first effect nothing is lost, whoever dies there (DESIGN 4)."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from worker.conftest import Shop
from worker.kit import dying_worker, until

from turnfleet.errors import FleetUnavailable, IllegalTransition
from turnfleet.store import Command, commands
from turnfleet.store.executor import AsyncExecutor
from turnfleet.store.records import NewDecision, Resumed, SweepPolicy
from turnfleet_kernel import ModelTurn, PlanSpec, ToolRequest
from turnfleet_kernel.testing import ScriptedModel
from turnfleet_worker import Registry, Reject, ToolContext

T = TypeVar("T")
SPEC = PlanSpec(name="p", model="m", tools=("pay",))
SCRIPT = (ModelTurn("let me", tool_requests=(ToolRequest("c1", "pay", {}),)), ModelTurn("the end"))
INTERRUPT = "approval:c1"


class Till:
    """Payments made, by all workers of a test; each needs a person's approval."""

    def __init__(self, **policy: Any) -> None:
        self.paid: list[str] = []
        self._policy = policy

    def stock(self, shop: Shop) -> Shop:
        """Give the inside of another worker."""
        registry = Registry()
        registry.model("m", ScriptedModel(SCRIPT))

        @registry.tool(approval=True, **self._policy)
        async def pay(context: ToolContext) -> str:
            """Pay."""
            self.paid.append(context.call_id)
            return "paid"

        return replace(shop, registry=registry)


def approve(shop: Shop, by: str = "alice", decision_id: str | None = None) -> Command[Resumed]:
    """Give the command that approves the payment."""
    decision = NewDecision(INTERRUPT, {"kind": "approve"})
    return commands.resume(shop.keys, "run", decisions=[decision], by=by, decision_id=decision_id)


async def test_a_decision_outlives_the_worker_that_was_to_act_on_it(shop: Shop, redis_url: str) -> None:
    """Resumed, claimed, and killed before its first write: the next worker finds the decision, and acts on it once."""
    till = Till()
    await shop.enqueue(SPEC)
    assert (await till.stock(shop).work()).state == "paused"
    assert (await shop.executor.execute(approve(shop))).state == "queued"
    claim = await shop.claim()
    async with dying_worker(till.stock(shop), redis_url, claim, writes=0) as (dying, _task):
        await dying.dead.wait()
        assert till.paid == []
        await shop.lose(claim)
        assert (await till.stock(shop).work()).state == "completed"
    assert (till.paid, (await shop.journal()).count("decision")) == (["c1"], 1)


class AroundPause(AsyncExecutor):
    """A worker's connection on which something happens right before and after its pause is in the store.

    Then the reply to the pause is lost.
    """

    def __init__(self, url: str, before: Callable[[], Awaitable[Any]], after: Callable[[], Awaitable[Any]]) -> None:
        super().__init__(url)
        self._before = before
        self._after = after
        self._done = False

    async def execute(self, command: Command[T]) -> T:
        """Execute; around the first pause, do what is to be done."""
        if command.script != "pause" or self._done:
            return await super().execute(command)
        self._done = True
        await self._before()
        await super().execute(command)
        await self._after()
        raise FleetUnavailable("the reply was lost")


@pytest.mark.parametrize("picked_up", [False, True], ids=["waits", "is picked up"])
async def test_an_approval_that_comes_while_the_pause_is_written_counts_once(
    shop: Shop, redis_url: str, *, picked_up: bool
) -> None:
    """Before, it is refused by name; right after, it counts, though the worker does not know yet that it paused."""
    till = Till()

    async def too_early() -> None:
        with pytest.raises(IllegalTransition):
            await shop.executor.execute(approve(shop))

    async def at_once() -> None:
        assert (await shop.executor.execute(approve(shop))).state == "queued"
        if picked_up:
            assert (await till.stock(shop).work()).state == "completed"

    await shop.enqueue(SPEC)
    claim = await shop.claim()
    async with aclosing(AroundPause(redis_url, too_early, at_once)) as executor:
        left = await replace(till.stock(shop), executor=executor).invocation(claim).run()
    # Its repeat is known as one until another worker left its own mark; then the run is simply not its own any more.
    assert left.state == ("lost" if picked_up else "paused")
    if not picked_up:
        assert (await till.stock(shop).work()).state == "completed"
    assert (till.paid, (await shop.journal()).count("decision")) == (["c1"], 1)
    assert [kind for kind in await shop.kinds() if kind in {"approval", "done"}] == ["approval", "done"]


async def test_an_approval_from_two_clients_is_applied_once(shop: Shop, redis_url: str) -> None:
    """The same person twice, at the same moment, over two connections: both hear that it counts, it is paid once."""
    till = Till()
    async with aclosing(AsyncExecutor(redis_url)) as one, aclosing(AsyncExecutor(redis_url)) as other:
        await shop.enqueue(SPEC)
        assert (await till.stock(shop).work()).state == "paused"
        answers = await asyncio.gather(one.execute(approve(shop)), other.execute(approve(shop)))
    assert {answer.state for answer in answers} == {"queued"}
    assert len([answer.offer for answer in answers if answer.offer is not None]) == 1
    assert (await till.stock(shop).work()).state == "completed"
    assert (till.paid, (await shop.journal()).count("decision")) == (["c1"], 1)


@pytest.mark.parametrize(
    ("default", "state", "last"), [(Reject("nobody decided"), "queued", "approval"), (None, "expired", "expired")]
)
async def test_nobody_decides_and_no_worker_has_the_run(
    shop: Shop, redis_url: str, default: Any, state: str, last: str
) -> None:
    """A worker that never saw the run sweeps: the default decision is taken, or the run ends with its own event."""
    till = Till(expires_in=0.05, on_expiry=default)
    await shop.enqueue(SPEC)
    assert (await till.stock(shop).work()).state == "paused"
    async with aclosing(AsyncExecutor(redis_url)) as stranger:

        async def swept() -> bool:
            sweep = commands.sweep(shop.keys, shop.keys.shard("run"), SweepPolicy())
            return bool((await stranger.execute(sweep)).decided) or (await status()).state != "paused"

        async def status() -> Any:
            return await stranger.execute(commands.status(shop.keys, "run"))

        await until(swept)
        assert ((await status()).state, (await shop.kinds())[-1]) == (state, last)
    if state == "queued":
        assert (await till.stock(shop).work()).state == "completed"
        assert (await shop.kinds())[-1] == "done"
    assert till.paid == []
