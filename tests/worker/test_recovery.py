"""A worker dies, another goes on: cut a run after every write of its journal (DESIGN 2, CONTRACT HK-4)."""

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from worker.conftest import Shop
from worker.kit import cut_inside_a_call, dying_worker, outcome

from turnfleet.store import commands
from turnfleet_kernel import Edit, ModelTurn, PlanSpec, ToolRequest, UsageDelta
from turnfleet_kernel.testing import ScriptedModel
from turnfleet_worker import Approve, Registry, Reject, Retry, ToolContext
from turnfleet_worker.ending import Verdict

SPEC = PlanSpec(name="p", model="m", tools=("act", "look"))


def turn(text: str, *calls: str) -> ModelTurn:
    """Give a turn that calls these tools."""
    requests = tuple(ToolRequest(f"{text}-{name}", name, {"order": text}) for name in calls)
    return ModelTurn(text, UsageDelta(5, 1, 1), "tool_calls" if calls else "end", requests)


class Effects:
    """What tools did, by call id, over all the workers of a test. `stock` gives each worker a registry of its own."""

    def __init__(self, *script: Any, idempotent: bool, reconcile: Any = None) -> None:
        self.made: Counter[str] = Counter()
        self.begun = asyncio.Event()
        self.hold: asyncio.Event | None = None
        self.models: list[ScriptedModel] = []
        self._script = script
        self._idempotent = idempotent
        self._reconcile = reconcile

    def stock(self, shop: Shop) -> Shop:
        """Give the inside of another worker process of the same fleet."""
        registry = Registry()
        self.models.append(ScriptedModel(self._script))
        registry.model("m", self.models[-1])

        @registry.tool(idempotent=self._idempotent)
        async def act(context: ToolContext, order: str) -> str:
            """Do something."""
            self.made[context.call_id] += 1
            self.begun.set()
            if self.hold is not None:
                await self.hold.wait()
            return f"did {order}"

        @registry.tool(idempotent=True)
        async def look(order: str) -> dict[str, Any]:
            """Look at something."""
            return {"order": order, "seen": True}

        if self._reconcile is not None:
            registry.reconcile("act")(self._reconcile)
        return replace(shop, registry=registry)


SCRIPT = (turn("one", "act", "look"), turn("two", "act"), turn("three"))


@pytest.mark.parametrize("writes", range(12))
async def test_a_run_cut_after_any_write_comes_to_the_same_end(shop: Shop, redis_url: str, writes: int) -> None:
    """What was written is neither bought nor done again, and the dead worker's late writes are refused."""
    effects = Effects(*SCRIPT, idempotent=True)
    await shop.enqueue(SPEC, run_id="whole")
    assert (await effects.stock(shop).work("whole")).state == "completed"
    expected = await outcome(shop, "whole")

    await shop.enqueue(SPEC)
    claim = await shop.claim()
    async with dying_worker(effects.stock(shop), redis_url, claim, writes) as (dying, task):
        killed = await dying.killed(task)
        if killed:
            turns_before = (await shop.journal()).count("turn")
            await shop.lose(claim)
            assert (await effects.stock(shop).work()).state == "completed"
            # A turn in the journal was not bought again.
            assert len(effects.models[-1].calls) == len(SCRIPT) - turns_before
    assert (await task).state == ("lost" if killed else "completed")
    assert await outcome(shop, "run") == expected
    events = await shop.events()
    assert [event["kind"] for event in events].count("done") == 1
    assert events[-1]["kind"] == "done"
    assert_once_without_what_was_rewound(events)


def assert_once_without_what_was_rewound(events: list[dict[str, Any]]) -> None:
    """EVT-12: one tool_call and at most one tool_result per call id, one usage per round; the text is whole."""
    kept: list[dict[str, Any]] = []
    for event in events:
        if event["kind"] == "rewind":
            kept = [each for each in kept if each["index"] < event["to_index"]]
        kept.append(event)
    calls = [event["call_id"] for event in kept if event["kind"] == "tool_call"]
    results = [event["call_id"] for event in kept if event["kind"] == "tool_result"]
    assert sorted(calls) == sorted(results) == ["one-act", "one-look", "two-act"]
    assert [event["round"] for event in kept if event["kind"] == "usage"] == [1, 2, 3]
    assert "".join(event["text"] for event in kept if event["kind"] == "text_delta") == "onetwothree"


@pytest.fixture
def doubtful() -> Effects:
    """Give a fleet whose `act` must not be repeated without asking."""
    return Effects(turn("one", "act"), turn("three"), idempotent=False)


async def test_a_call_without_receipt_asks_a_person(shop: Shop, redis_url: str, doubtful: Effects) -> None:
    """Not idempotent, nothing to reconcile with: `in_doubt`. It happened, says a person: it is not made again."""
    await shop.enqueue(SPEC)
    await cut_inside_a_call(doubtful.stock(shop), redis_url, doubtful)
    assert (await doubtful.stock(shop).work()).state == "paused"
    (waiting,) = (await shop.executor.execute(commands.status(shop.keys, "run"))).interrupts
    assert (waiting.kind, waiting.payload["tool"], waiting.payload["arguments"]) == (
        "in_doubt",
        "act",
        {"order": "one"},
    )
    await shop.decide(first={"kind": "approve", "value": "it did"})
    assert (await doubtful.stock(shop).work()).state == "completed"
    assert doubtful.made == {"one-act": 1}
    (known,) = (await outcome(shop, "run"))["tool_outcomes"]
    assert known["value"] == "it did"


async def test_a_person_says_that_it_did_not_happen(shop: Shop, redis_url: str, doubtful: Effects) -> None:
    """`retry` makes the call again, under the same call id."""
    await shop.enqueue(SPEC)
    await cut_inside_a_call(doubtful.stock(shop), redis_url, doubtful)
    assert (await doubtful.stock(shop).work()).state == "paused"
    await shop.decide(first={"kind": "retry"})
    assert (await doubtful.stock(shop).work()).state == "completed"
    assert doubtful.made == {"one-act": 2}


@pytest.mark.parametrize(
    ("says", "made", "value"), [(Approve("found it"), 1, "found it"), (Retry(), 2, "did one"), (Reject("no"), 1, None)]
)
async def test_a_reconcile_function_is_asked_before_a_person(
    shop: Shop, redis_url: str, says: Any, made: int, value: str | None
) -> None:
    """It knows whether the call took effect, so nobody waits."""

    async def did_it_happen(_request: ToolRequest) -> Any:
        return says

    effects = Effects(turn("one", "act"), turn("three"), idempotent=False, reconcile=did_it_happen)
    await shop.enqueue(SPEC)
    await cut_inside_a_call(effects.stock(shop), redis_url, effects)
    assert (await effects.stock(shop).work()).state == "completed"
    assert effects.made == {"one-act": made}
    (known,) = (await outcome(shop, "run"))["tool_outcomes"]
    assert known["value"] == value


@pytest.mark.parametrize("says", [True, "found it", Edit({"order": "two"}), Approve(object()), ConnectionError("down")])
async def test_a_reconcile_function_that_cannot_be_understood_leaves_it_to_a_person(
    shop: Shop, redis_url: str, says: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The call is not made again, and the model is not told of an error: it would make it anew. The log says why."""

    def did_it_happen(_request: ToolRequest) -> Any:
        if isinstance(says, Exception):
            raise says
        return says

    effects = Effects(turn("one", "act"), turn("three"), idempotent=False, reconcile=did_it_happen)
    await shop.enqueue(SPEC)
    await cut_inside_a_call(effects.stock(shop), redis_url, effects)
    assert (await effects.stock(shop).work()).state == "paused"
    assert effects.made == {"one-act": 1}
    (waiting,) = (await shop.executor.execute(commands.status(shop.keys, "run"))).interrupts
    assert waiting.kind == "in_doubt"
    (said,) = (each.getMessage() for each in caplog.records if "reconcile of tool 'act'" in each.getMessage())
    assert said.endswith("a person is asked whether the call happened")
    assert "down" not in said


async def test_a_turn_that_was_cut_off_is_rewound(shop: Shop) -> None:
    """Readers saw a part of an answer that was never finished: they are told so, and then get it whole."""
    shown: asyncio.Event = asyncio.Event()

    class Stuttering(ScriptedModel):
        def stream(self, transcript: Any) -> Any:
            inner = super().stream(transcript)

            class Round:
                async def deltas(self) -> Any:
                    async for delta in inner.deltas():
                        yield delta
                        shown.set()
                        await asyncio.Event().wait()

                def result(self) -> ModelTurn:
                    return inner.result()

            return Round()

    spec = PlanSpec(name="p", model="m")
    effects = Effects("a long answer", idempotent=True)
    stuttering = Registry()
    stuttering.model("m", Stuttering(["a long answer"]))
    await shop.enqueue(spec)
    claim = await shop.claim()
    first = replace(shop, registry=stuttering).invocation(claim)
    task = asyncio.ensure_future(first.run())
    await shown.wait()
    async with shop.executor.subscribe(shop.keys.events("run")) as heard:
        async for _ in heard:  # the first thing heard says "look", which is enough to know that it is in the log
            if await shop.kinds():
                break
    await shop.lose(claim)
    first.stop(Verdict.LOST)
    assert (await task).state == "lost"
    assert (await effects.stock(shop).work()).state == "completed"
    events = await shop.events()
    assert [event["kind"] for event in events][:2] == ["text_delta", "rewind"]
    assert events[1]["to_index"] == 0
    assert "".join(event["text"] for event in events[2:] if event["kind"] == "text_delta") == "a long answer"


async def test_a_hand_over_repeats_nothing(shop: Shop, doubtful: Effects) -> None:
    """CXL-7: the process drains, the running call ends and is recorded, the next invocation goes on behind it."""
    await shop.enqueue(SPEC)
    doubtful.hold = asyncio.Event()
    worker = doubtful.stock(shop)
    task = asyncio.ensure_future(worker.work())
    await doubtful.begun.wait()
    worker.draining = True
    doubtful.hold.set()
    left = await task
    assert (left.state, left.offer is not None) == ("queued", True)
    assert (await doubtful.stock(shop).work()).state == "completed"
    assert doubtful.made == {"one-act": 1}
    status = await shop.executor.execute(commands.status(shop.keys, "run"))
    assert (status.attempt, status.losses) == (2, 0)
    assert (await shop.kinds()).count("resumed") == 1
