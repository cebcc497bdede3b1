"""Pausing and going on: three replay ports, a seeded context, and no second way through the loop."""

import datetime as dt
from typing import Any

import pytest
from kernel.kit import ASK, Walk, contents, go_on, indices, walk
from kernel.shop import APPROVED, Shop

from turnfleet_kernel import (
    Answer,
    Approve,
    ContractViolationError,
    DeadlineExceeded,
    Delta,
    InvocationPlan,
    InvocationPreempted,
    ModelPalette,
    ModelTurn,
    PauseRecordError,
    Phase,
    Stage,
    StageResult,
    ToolRequest,
    UsageDelta,
    approval_stage,
    record_pause,
    resume,
)
from turnfleet_kernel.testing import ManualClock, ScriptedModel, ToolBox, call, calls, make_plan


async def test_a_run_pauses_is_recorded_and_goes_on() -> None:
    """Approved, then asked, then answered: each effect once, one sequence of events (HK-1, HK-3, HK-4)."""
    shop = Shop()
    first = await walk(shop.plan, run_id="r")
    assert (first.kinds[-1], first.raised, shop.done) == ("approval", None, [])
    second = await go_on(shop.plan, first.record(), APPROVED)
    assert second.kinds == ["tool_call"] * 4 + ["tool_result"] * 3 + ["question"]
    assert shop.done == [("pay", 1), "asked", "looked", ("pay", 2)]
    third = await go_on(shop.plan, second.record(), {"which": Answer("a")})
    assert third.kinds[:2] == ["tool_result", "text_delta"]
    assert third.kinds[-1] == "done"
    assert shop.done == [("pay", 1), "asked", "looked", ("pay", 2)]
    outcome = third.events[-1].outcome
    assert [each.value for each in outcome.tool_outcomes] == ["paid 1", "a", "seen", "paid 2"]
    assert (outcome.text, outcome.usage) == ("Let me see. All done.", UsageDelta(30, 10, 2))
    assert len(shop.model.calls) == 2
    # EVT-2, EVT-12: over the whole run.
    assert indices(first, second, third) == list(range(len(indices(first, second, third))))
    everything = [event for each in (first, second, third) for event in each.events]
    assert [event.call_id for event in everything if event.kind == "tool_call"] == ["p1", "q1", "l1", "p2"]
    assert sorted(event.call_id for event in everything if event.kind == "tool_result") == ["l1", "p1", "p2", "q1"]
    assert [event.round for event in everything if event.kind == "usage"] == [1, 2]
    assert first.text + second.text + third.text == outcome.text


async def test_resolve_does_not_run_again() -> None:
    """The recorded inputs are bound, and the decisions with them; other stages do run again (HK-4)."""
    ran: list[str] = []

    def resolve(_: object) -> StageResult:
        ran.append("resolve")
        return StageResult(publish={"facts": {"tier": ["gold"]}})

    def look(frame: Any) -> None:
        ran.append(
            f"{frame.phase.value} {frame.resolved['facts']['tier'][0]} {len(frame.resolved.get('decisions', ()))}"
        )

    stages = (Stage("r", Phase.RESOLVE, resolve), Stage("l", Phase.PRE_MODEL, look))
    shop = Shop(also=stages)
    first = await walk(shop.plan)
    await go_on(shop.plan, first.record(), APPROVED)
    assert ran == ["resolve", "pre-model gold 0", "pre-model gold 2"]


async def test_the_chosen_model_is_kept() -> None:
    """The palette is not asked again (HK-3, IPL-6)."""
    asked: list[int] = []

    def choose(_: InvocationPlan, __: object) -> str:
        asked.append(1)
        return "b"

    chosen = ScriptedModel([call("pay", "p", amount=1), "from b"])
    palette = ModelPalette({"a": ScriptedModel(["from a"]), "b": chosen}, choose)
    plan = make_plan(palette, tools={"pay": lambda amount: amount}, stages=[approval_stage(lambda _: True)])
    first = await walk(plan)
    assert first.record().model == "b"
    second = await go_on(plan, first.record(), {"approval:p": Approve()})
    assert (second.text, len(asked)) == ("from b", 1)


async def test_rounds_and_time_count_over_all_invocations() -> None:
    """Limits are the run's, not the invocation's (STG-6, CXL-6)."""
    clock = ManualClock()
    slow = Stage("slow", Phase.PRE_MODEL, lambda _: clock.advance(6))
    shop = Shop(also=(slow,), clock=clock, deadline_seconds=10)
    first = await walk(shop.plan)
    clock.advance(1000)
    assert first.record().ran_seconds == 6
    second = await go_on(shop.plan, first.record(), APPROVED)
    assert isinstance(second.raised, DeadlineExceeded)
    short = Shop(max_model_rounds=1)
    first = await walk(short.plan)
    second = await go_on(short.plan, first.record(), APPROVED)
    third = await go_on(short.plan, second.record(), {"which": Answer("b")})
    assert third.events[-1].outcome.stop_reason == "tool_limit"


async def test_what_json_cannot_carry_is_an_error_when_pausing() -> None:
    """Not days later, when a person answers; it says what and of which run (HK-3)."""
    values: dict[str, Any] = {"date": dt.date(2024, 1, 1), "nan": float("nan"), "set": {1}}
    for name, value in values.items():
        asked = calls(ToolRequest("v", "value", {}), ToolRequest("q", "ask", {}))
        shop = Shop()
        plan = make_plan([asked], tools={"value": lambda value=value: value, "ask": shop.ask})
        seen = await walk(plan, run_id=f"run-{name}")
        with pytest.raises(PauseRecordError, match=rf"run-{name} cannot be recorded: outcome of value \(v\)"):
            record_pause(plan, seen.ctx)


async def test_only_a_paused_run_has_a_record() -> None:
    """A run that is done has nothing to go on from (HK-3)."""
    seen = await walk(make_plan(["x"]))
    with pytest.raises(ContractViolationError, match="has not paused"):
        record_pause(seen.plan, seen.ctx)


async def test_a_record_belongs_to_its_plan() -> None:
    """A resume runs the plan that it paused with (RCX-5)."""
    shop = Shop()
    record = (await walk(shop.plan)).record()
    with pytest.raises(ContractViolationError, match="recorded with plan"):
        resume(make_plan(["x"], name="other"), record, ASK, {})


async def test_pausing_again_without_news_gives_the_same_record() -> None:
    """But for the events that were made meanwhile and the time that passed (HK-3)."""
    shop = Shop()
    first = (await walk(shop.plan)).record()
    again = await go_on(shop.plan, first, {})
    assert again.record().model_copy(update={"next_index": first.next_index}).same_as(first)
    assert again.record().next_index == first.next_index + len(again.events)


async def test_a_turn_can_be_shown_again() -> None:
    """After the fleet rewound a turn that was cut off, the replay shows the recorded deltas (HK-4)."""
    shop = Shop()
    record = (await walk(shop.plan)).record()
    silent = await go_on(shop.plan, record, APPROVED)
    assert silent.text == ""
    shown = record.model_copy(update={"shown": (Delta("text", "Let me see."),)})
    assert (await go_on(Shop().plan, shown, APPROVED)).text == "Let me see."


async def cut(shop: Shop, model_call: int | None, tool: str | None) -> Walk:
    """Hand a run over at the n-th model call, or when a tool is called."""

    class Model(ScriptedModel):
        async def _take(self, place: int) -> ModelTurn:
            if model_call == len(self.calls):
                raise InvocationPreempted
            return await super()._take(place)

    steps = shop.model._steps
    shop.model = Model(steps)

    class Tools(ToolBox):
        async def call(self, request: ToolRequest) -> Any:
            if tool == request.call_id:
                raise InvocationPreempted
            return await super().call(request)

    functions: dict[str, Any] = {"pay": shop.pay, "ask": shop.look, "look": shop.look}
    plan = make_plan(shop.model, tools=Tools(functions))
    return await walk(plan, run_id="r")


@pytest.mark.parametrize(("model_call", "tool"), [(1, None), (2, None), (None, "p1"), (None, "l1"), (None, "p2")])
async def test_a_run_that_was_handed_over_goes_on_from_its_record(model_call: int | None, tool: str | None) -> None:
    """Wherever it was cut: same transcript, outcome and events, no call twice but the one in hand (HK-3, CXL-7)."""
    whole = await cut(Shop(), None, None)
    shop = Shop()
    first = await cut(shop, model_call, tool)
    assert isinstance(first.raised, InvocationPreempted)
    functions: dict[str, Any] = {"pay": shop.pay, "ask": shop.look, "look": shop.look}
    plan = make_plan(ScriptedModel(shop.model._steps), tools=functions)
    second = await go_on(plan, first.record())
    assert second.raised is None
    assert contents(second.ctx.messages) == contents(whole.ctx.messages)
    assert second.ctx.usage == whole.ctx.usage
    assert [event.kind for event in [*first.events, *second.events]] == [event.kind for event in whole.events]
    assert indices(first, second) == indices(whole)
    assert sorted(map(str, shop.done)) == sorted(map(str, ["looked", "looked", ("pay", 1), ("pay", 2)]))
