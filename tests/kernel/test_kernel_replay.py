"""Random rounds of waiting calls over many invocations, against what must come out."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel.kit import Walk, contents, go_on, indices, walk

from turnfleet_kernel import (
    Answer,
    Approve,
    Decision,
    DelegationContext,
    Edit,
    Interrupt,
    InvocationKernel,
    InvocationPaused,
    InvocationPlan,
    ModelPalette,
    ModelTurn,
    PauseRecord,
    Phase,
    Reject,
    Stage,
    StageResult,
    ToolRequest,
    UsageDelta,
    approval_stage,
    delegate,
)
from turnfleet_kernel.testing import ScriptedModel, ToolBox, make_plan

KINDS = ["free", "pay", "ask", "child"]
"""A call that just runs, one that needs approval, one that asks, and one whose child agent needs approval."""


class World:
    """A plan for rounds of calls, and the effects that were really done."""

    def __init__(self, rounds: list[list[str]], parallel: int) -> None:
        self.effects: list[str] = []
        turns = [self._turn(number, kinds) for number, kinds in enumerate(rounds)]
        self.model = ScriptedModel([*turns, ModelTurn("end", UsageDelta(1, 1, 1), "stop")])
        stages = [
            Stage("facts", Phase.RESOLVE, self._resolve),
            approval_stage(lambda request: request.name == "pay"),
        ]
        functions: dict[str, Any] = {"free": self._free, "pay": self._pay, "ask": self._ask, "child": self._child()}
        self.plan = make_plan(
            self.model,
            tools=ToolBox(functions),
            stages=stages,
            max_parallel_tools=parallel,
            max_model_rounds=len(rounds) + 1,
        )

    def _resolve(self, _: object) -> StageResult:
        self.effects.append("resolved")
        return StageResult(publish={"facts": {"n": [1]}})

    def _turn(self, number: int, kinds: list[str]) -> ModelTurn:
        requests = []
        for place, kind in enumerate(kinds):
            call_id = f"{kind}-{number}-{place}"
            arguments = {"prompt": call_id} if kind == "child" else {"what": call_id}
            requests.append(ToolRequest(call_id, kind, arguments))
        return ModelTurn(f"round {number}. ", UsageDelta(1, 1, 1), "tools", tuple(requests))

    def _free(self, what: str) -> str:
        self.effects.append(what)
        return what

    def _pay(self, what: str) -> str:
        self.effects.append(what)
        return what

    def _ask(self, what: str) -> None:
        self.effects.append(f"asked {what}")
        raise InvocationPaused(Interrupt("question", "question"))

    def _child(self) -> Any:
        turn = ModelTurn("", UsageDelta(1, 1, 1), "tools", (ToolRequest("pay", "pay", {"what": "child paid"}),))
        child = make_plan(
            ScriptedModel([turn, "child end"]),
            tools={"pay": self._pay},
            stages=[approval_stage(lambda _: True)],
            name="child",
        )
        return delegate(InvocationKernel(), DelegationContext(), "child", child)


def decide(interrupt: Interrupt, choice: int) -> Decision:
    """Choose one of the decisions that an interrupt takes."""
    if interrupt.kind == "question":
        answers: list[Decision] = [Answer(f"answer {interrupt.call_id}"), Reject("no")]
        return answers[choice % 2]
    verdicts: list[Decision] = [Approve(), Edit({"what": f"edited {interrupt.call_id}"}), Reject("no")]
    return verdicts[choice % 3]


def expected(call_id: str, decision: Decision | None) -> tuple[Any, str | None, str | None]:
    """Say what must become of a call: value, error, effect."""
    kind = call_id.partition("-")[0]
    match decision:
        case None:
            return call_id, None, call_id
        case Reject() if kind != "child":
            return None, "rejected by a person: no", None
        case Answer(value=value):
            return value, None, None
        case Reject():
            return "child end", None, None
        case Edit(arguments=arguments):
            return ("child end" if kind == "child" else arguments["what"]), None, arguments["what"]
        case _:
            return ("child end", None, "child paid") if kind == "child" else (call_id, None, call_id)


async def to_the_end(world: World, choices: list[int]) -> tuple[list[Walk], dict[str | None, Decision]]:
    """Decide some of what is open, again and again, until the run is done."""
    seen = await walk(world.plan, run_id="r")
    walks, decisions, turn = [seen], dict[str | None, Decision](), 0
    while seen.kinds[-1] in {"approval", "question"}:
        waiting = seen.ctx.interrupts
        chosen: dict[str, Decision] = {}
        for place, interrupt in enumerate(waiting):
            choice = choices[turn % len(choices)]
            turn += 1
            if choice % 5 == 4 and place > 0:
                continue
            chosen[interrupt.id] = decisions[interrupt.call_id] = decide(interrupt, choice)
        seen = await go_on(world.plan, seen.record(), chosen)
        walks.append(seen)
    return walks, decisions


rounds_of_calls = st.lists(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4), min_size=1, max_size=3)


@settings(max_examples=60)
@given(rounds_of_calls, st.integers(1, 4), st.lists(st.integers(0, 29), min_size=1, max_size=12))
def test_whatever_is_decided_in_whatever_order(rounds: list[list[str]], parallel: int, choices: list[int]) -> None:
    """Each outcome as decided, each effect once, one transcript, one sequence of events (HK-3 to HK-6, EVT-12)."""
    world = World(rounds, parallel)
    walks, decisions = asyncio.run(to_the_end(world, choices))
    last = walks[-1]
    assert last.raised is None
    ids = [f"{kind}-{number}-{place}" for number, kinds in enumerate(rounds) for place, kind in enumerate(kinds)]
    outcomes = {call_id: expected(call_id, decisions.get(call_id)) for call_id in ids}
    assert [(each.call_id, each.value, each.error) for each in last.ctx.tool_outcomes] == [
        (call_id, value, error) for call_id, (value, error, _) in outcomes.items()
    ]
    asked = [f"asked {call_id}" for call_id in ids if call_id.startswith("ask")]
    done = [effect for _, _, effect in outcomes.values() if effect is not None]
    assert sorted(world.effects) == sorted(["resolved", *asked, *done])
    assert indices(*walks) == list(range(len(indices(*walks))))
    everything = [event for each in walks for event in each.events]
    assert sorted(event.call_id for event in everything if event.kind == "tool_call") == sorted(ids)
    assert sorted(event.call_id for event in everything if event.kind == "tool_result") == sorted(ids)
    assert [event.round for event in everything if event.kind == "usage"] == list(range(1, len(rounds) + 2))
    assert "".join(each.text for each in walks) == last.ctx.text
    assert len(world.model.calls) == len(rounds) + 1


# -- every recorded item is needed


async def signature(world: World, record: PauseRecord) -> Any:
    """Go on from a record, deciding what is left, and say all that came of it."""
    try:
        seen = await go_on(world.plan, record, {"question": Answer("a"), "r.child-1-3:approval:pay": Approve()})
    except (ValueError, LookupError) as refused:
        return type(refused).__name__
    return (
        seen.kinds,
        indices(seen),
        [(event.event.kind, event.event.index) for event in seen.of("child")],
        type(seen.raised),
        [(each.call_id, each.value, each.error) for each in seen.ctx.tool_outcomes],
        contents(seen.ctx.messages),
        (seen.ctx.usage, seen.ctx.text, seen.ctx.rounds, seen.ctx.resolved, seen.ctx.interrupts, seen.ctx.run_id),
        sorted(world.effects),
        seen.ctx.lifecycle.ran_seconds >= 100,
    )


async def mid_run() -> tuple[World, PauseRecord]:
    """Stop a run in its second round, with an outcome, a decision, a question and a child open."""
    world = World([["free"], ["free", "pay", "ask", "child"]], 4)
    first = await walk(world.plan, run_id="r")
    second = await go_on(world.plan, first.record(), {"approval:pay-1-1": Approve()})
    record = second.record().model_copy(update={"ran_seconds": 100.0})
    return world, record


DROPPED: dict[str, Any] = {
    "run_id": "other",
    "transcript": None,
    "turn": None,
    "outcomes": {},
    "decisions": {},
    "children": {},
    "usage": UsageDelta(),
    "text": "",
    "rounds": 0,
    "ran_seconds": 0.0,
    "tool_outcomes": (),
    "next_index": 0,
    "interrupts": (),
    "resolved": None,
    "made": type(PauseRecord.model_fields["made"].default)(),
}


@pytest.mark.parametrize("name", DROPPED)
async def test_every_recorded_item_is_needed(name: str) -> None:
    """Dropping any one of them changes what comes of the run (HK-3)."""
    world, record = await mid_run()
    whole = await signature(world, record)
    world, record = await mid_run()
    assert getattr(record, name) != DROPPED[name]
    assert await signature(world, record.model_copy(update={name: DROPPED[name]})) != whole


async def test_used_call_ids_are_needed() -> None:
    """Without them a later call of the provider's could take the id of an earlier one (HK-3, RES-3)."""
    again = ModelTurn("", UsageDelta(1, 1, 1), "tools", (ToolRequest("a", "echo", {}),))
    ask = ModelTurn("", UsageDelta(1, 1, 1), "tools", (ToolRequest("q", "ask", {}),))

    def plan() -> InvocationPlan:
        return make_plan([again, ask, again, "end"], tools={"echo": lambda: 1, "ask": put_question})

    record = (await walk(plan())).record()
    assert record.call_ids == ("a",)
    kept = await go_on(plan(), record, {"question": Answer(1)})
    dropped = await go_on(plan(), record.model_copy(update={"call_ids": ()}), {"question": Answer(1)})
    assert [each.call_id == "a" for each in kept.ctx.tool_outcomes] == [True, False, False]
    assert [each.call_id for each in dropped.ctx.tool_outcomes] == ["a", "q", "a"]


async def test_used_interrupt_ids_are_needed() -> None:
    """Without them a later question could take the id of one that was answered (HK-3, HK-5)."""
    ask = ModelTurn("", UsageDelta(1, 1, 1), "tools", (ToolRequest(None, "ask", {}),))

    def plan() -> InvocationPlan:
        return make_plan([ask, ask, "end"], tools={"ask": put_question})

    record = (await walk(plan())).record()
    assert record.interrupt_ids == ("question",)
    kept = await go_on(plan(), record, {"question": Answer(1)})
    dropped = await go_on(plan(), record.model_copy(update={"interrupt_ids": ()}), {"question": Answer(1)})
    assert [each.id for each in kept.ctx.interrupts] == ["question#2"]
    assert [each.id for each in dropped.ctx.interrupts] == ["question"]


async def test_the_chosen_model_is_needed() -> None:
    """Without it the palette would be asked again, and might say something else (HK-3, IPL-6)."""
    ask = ModelTurn("", UsageDelta(1, 1, 1), "tools", (ToolRequest("q", "ask", {}),))
    answers = iter(["one", "two", "two"])

    def plan() -> InvocationPlan:
        models = {name: ScriptedModel([ask, f"from {name}"]) for name in ("one", "two")}
        return make_plan(ModelPalette(models, lambda *_: next(answers)), tools={"ask": put_question})

    record = (await walk(plan())).record()
    kept = await go_on(plan(), record, {"question": Answer(1)})
    dropped = await go_on(plan(), record.model_copy(update={"model": None}), {"question": Answer(1)})
    assert (kept.text, dropped.text) == ("from one", "from two")


async def test_a_record_names_its_run_and_its_tree() -> None:
    """And the plan that it goes on with (HK-3, DEL-1)."""
    world, record = await mid_run()
    assert (record.v, record.plan_id, record.root_run_id) == (1, world.plan.identity.plan_id, "r")
    child = record.children["child-1-3"]
    assert (child.run_id, child.root_run_id, child.parent_run_id) == ("r.child-1-3", "r", "r")
    assert [(key, each.decision) for key, each in record.decisions.items()] == [("approval:pay-1-1", Approve())]


def put_question() -> None:
    """Wait for an answer."""
    raise InvocationPaused(Interrupt("question", "question"))


async def test_the_recorded_accumulators_are_those_before_the_paused_turn() -> None:
    """The replay absorbs the turn again, so the record must not hold it (HK-3)."""
    _, record = await mid_run()
    assert (record.rounds, record.text, record.usage) == (1, "round 0. ", UsageDelta(1, 1, 1))
    assert [each.call_id for each in record.tool_outcomes] == ["free-0-0"]
    assert list(record.outcomes) == ["free-1-0", "pay-1-1"]
    assert (record.made.usage, record.made.tool_results) == ((2,), ("free-1-0", "pay-1-1"))
