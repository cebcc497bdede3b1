"""A failover lost writes: what is noticed, by whom, and how the run goes on (docs/guarantees.md, "After a failover").

The loss is made to the byte: the fleet's keys are put back to an earlier moment while workers go on.
"""

from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest
from faults.lost_writes import LostWrites
from store.kit import ending, event
from worker.conftest import Shop
from worker.kit import dying_worker, outcome

from turnfleet import AsyncFleet
from turnfleet.errors import ClaimLost, EventsLost, StepGap
from turnfleet.store import commands
from turnfleet.store.records import Claim, NewDecision, NotClaimed
from turnfleet_kernel import ModelTurn, PlanSpec, ToolRequest, UsageDelta
from turnfleet_kernel.testing import ScriptedModel
from turnfleet_worker import Registry, ToolContext

SPEC = PlanSpec(name="p", model="m", tools=("act",))
SCRIPT = (
    ModelTurn("one", UsageDelta(5, 1, 1), "tool_calls", (ToolRequest("c1", "act", {}),)),
    ModelTurn("two", UsageDelta(5, 1, 1), "end"),
)


@pytest.fixture
def lost(shop: Shop) -> LostWrites:
    """Give the hand that puts the fleet's keys back."""
    return LostWrites(shop.executor.client, shop.keys.fleet)


class Crew:
    """Workers of one fleet, what their tool did, and what their models were asked."""

    def __init__(self, shop: Shop, *, approval: bool = False, at_work: Callable[[], Any] | None = None) -> None:
        self.shop = shop
        self.done: list[str] = []
        self.models: list[ScriptedModel] = []
        self._approval = approval
        self._at_work = at_work

    def worker(self) -> Shop:
        """Give another worker's inside."""
        registry = Registry()
        self.models.append(ScriptedModel(SCRIPT))
        registry.model("m", self.models[-1])

        @registry.tool(approval=self._approval)
        async def act(context: ToolContext) -> str:
            """Have an effect."""
            self.done.append(context.call_id)
            if self._at_work is not None:
                hook, self._at_work = self._at_work, None
                await hook()
            return "done"

        return replace(self.shop, registry=registry)


async def test_a_claim_that_was_lost_is_no_claim(shop: Shop, lost: LostWrites) -> None:
    """The fence is equality: numbers repeat after a loss, claim ids do not. The run is there for the next worker."""
    await shop.enqueue(SPEC)
    await lost.save()
    first = await shop.claim()
    await lost.fall_back()
    with pytest.raises(ClaimLost, match="queued"):
        await shop.executor.execute(commands.step(shop.keys, first, seq=1))
    second = await shop.claim()
    assert (first.attempt, first.seq) == (second.attempt, second.seq)
    with pytest.raises(ClaimLost):
        await shop.executor.execute(commands.step(shop.keys, first, seq=1))
    await shop.executor.execute(commands.step(shop.keys, second, seq=1))
    beats = [await shop.executor.execute(commands.beat(shop.keys, [claim], lease_ms=1000)) for claim in (first, second)]
    assert [beat["run"].alive for beat in beats] == [False, True]


async def test_a_write_after_a_lost_one_does_not_follow(shop: Shop, lost: LostWrites) -> None:
    """The claim survived, a step of it did not: the next is refused as a gap, and writes nothing."""
    await shop.enqueue(SPEC)
    claim = await shop.claim()
    await lost.save()
    await shop.executor.execute(commands.step(shop.keys, claim, seq=1, entries=[{"k": "opened"}]))
    await lost.fall_back()
    with pytest.raises(StepGap):
        await shop.executor.execute(commands.step(shop.keys, claim, seq=2, entries=[{"k": "turn"}]))
    with pytest.raises(StepGap):
        await shop.executor.execute(commands.finish(shop.keys, claim, seq=2, ending=ending("run", 0, "completed")))
    assert await shop.journal() == []


async def test_a_worker_that_meets_a_gap_lets_the_run_go(shop: Shop, lost: LostWrites) -> None:
    """What is left of the journal is gone on with: the lost effect was never recorded, so it is made again.

    This is the one repeat that a failover can cause unasked. Where there are replicas, a start waits for one of them.
    """
    crew = Crew(shop, at_work=lost.fall_back)
    await shop.enqueue(SPEC)
    claim = await shop.claim()
    await lost.save()
    assert (await crew.worker().invocation(claim).run()).state == "lost"
    assert crew.done == ["c1"]
    await shop.lose(claim)
    assert (await crew.worker().work()).state == "completed"
    assert (crew.done, len(crew.models[-1].calls)) == (["c1", "c1"], 2)
    assert (await shop.events())[-1]["kind"] == "done"


async def test_a_lost_receipt_is_asked_about(shop: Shop, lost: LostWrites) -> None:
    """The start survived, so nothing is repeated unasked: a person says what happened."""
    crew = Crew(shop)
    await shop.enqueue(SPEC)
    claim = await shop.claim()
    crew._at_work = lost.save  # the start is durable when the tool is at work, the receipt is not made yet
    assert (await crew.worker().invocation(claim).run()).state == "completed"
    await lost.fall_back()
    await shop.lose(claim)
    assert (await crew.worker().work()).state == "paused"
    assert await shop.kinds() == ["text_delta", "usage", "tool_call", "resumed", "in_doubt"]
    await shop.decide(first={"kind": "approve", "value": "done"})
    assert (await crew.worker().work()).state == "completed"
    assert crew.done == ["c1"]


async def test_a_finish_that_was_lost_is_reached_again_from_the_journal(
    shop: Shop, lost: LostWrites, redis_url: str
) -> None:
    """The run came back as running; its lease ends, and what its journal still has is not bought or made again."""
    crew = Crew(shop)
    await shop.enqueue(SPEC)
    claim = await shop.claim()
    async with dying_worker(crew.worker(), redis_url, claim, 2) as (dying, task):
        assert await dying.killed(task)
        await lost.save()
        dying.left = 1_000
    assert (await task).state == "completed"
    before = await outcome(shop, "run")
    await lost.fall_back()
    assert (await shop.executor.execute(commands.status(shop.keys, "run"))).state == "running"
    turns = (await shop.journal()).count("turn")
    await shop.lose(claim)
    assert (await crew.worker().work()).state == "completed"
    assert (await outcome(shop, "run"), crew.done) == (before, ["c1"])
    assert len(crew.models[-1].calls) == 2 - turns
    assert [event["kind"] for event in await shop.events()].count("done") == 1


async def test_a_lost_decision_is_asked_for_again(shop: Shop, lost: LostWrites) -> None:
    """The run came back as paused, with its interrupt open: the next decision counts, and runs once."""
    crew = Crew(shop, approval=True)
    await shop.enqueue(SPEC)
    assert (await crew.worker().work()).state == "paused"
    await lost.save()
    await shop.decide(first={"kind": "approve"})
    resumed = await shop.claim()
    await lost.fall_back()
    with pytest.raises(ClaimLost, match="paused"):
        await shop.executor.execute(commands.step(shop.keys, resumed, seq=resumed.seq + 1))
    await shop.decide(first={"kind": "approve"})
    assert (await crew.worker().work()).state == "completed"
    assert crew.done == ["c1"]


async def test_a_run_that_was_lost_whole_is_not_made_up(shop: Shop, lost: LostWrites) -> None:
    """Its message says that there was a record, so it does not run; enqueueing it again under its id does."""
    await lost.save()
    await shop.enqueue(SPEC)
    await lost.fall_back()
    claim = commands.claim(shop.keys, "run", claim_id="c", worker="w", lease_ms=1000, recorded=True)
    assert await shop.executor.execute(claim) == NotClaimed("run", "gone", "")
    await shop.enqueue(SPEC)
    assert isinstance(await shop.executor.execute(claim), Claim)


async def test_a_decision_repeated_after_a_loss_is_no_conflict(shop: Shop, lost: LostWrites) -> None:
    """A client that heard nothing asks again with its decision id, whatever survived."""
    crew = Crew(shop, approval=True)
    await shop.enqueue(SPEC)
    assert (await crew.worker().work()).state == "paused"
    await lost.save()
    (waiting,) = (await shop.executor.execute(commands.status(shop.keys, "run"))).interrupts
    decide = commands.resume(
        shop.keys, "run", decisions=[NewDecision(waiting.id, {"kind": "approve"})], by="alice", decision_id="d1"
    )
    for survived in (True, False, True):
        if not survived:
            await lost.fall_back()
        assert (await shop.executor.execute(decide)).state == "queued"
    assert (await shop.journal()).count("decision") == 1


async def test_a_reader_ahead_of_the_log_is_told(shop: Shop, lost: LostWrites, redis_url: str) -> None:
    """It does not wait in silence until the run has passed its place again, with other events than it has had."""
    await shop.enqueue(SPEC)
    claim = await shop.claim()

    async def say(seq: int) -> None:
        events = [event(claim.run_id, seq - 1, "text_delta", text="a word")]
        await shop.executor.execute(commands.step(shop.keys, claim, seq=seq, events=events))

    await say(1)
    await lost.save()
    await say(2)
    async with AsyncFleet(redis_url, name=shop.keys.fleet, shards=shop.keys.shards, poll_interval=0.05) as fleet:
        async with aclosing(fleet.run(claim.run_id).events()) as reader:
            assert [(await anext(reader)).index, (await anext(reader)).index] == [0, 1]
            await lost.fall_back()
            with pytest.raises(EventsLost, match=r"up to index 1 .* before index 1") as told:
                await anext(reader)
        async with aclosing(fleet.run(claim.run_id).events(after=told.value.next_index - 1)) as reader:
            await say(2)
            assert (await anext(reader)).index == 1
