"""Pausing and going on: three replay ports, a seeded context, and no second way through the loop."""

import asyncio
import datetime as dt
from typing import Any

import pytest
from kernel.kit import ASK, Walk, contents, go_on, indices, walk

from turnfleet_kernel import (
    Answer,
    Approve,
    ContractViolationError,
    DeadlineExceeded,
    Decision,
    Delta,
    Edit,
    Interrupt,
    InvalidDecision,
    InvocationPaused,
    InvocationPlan,
    InvocationPreempted,
    ModelPalette,
    ModelTurn,
    PauseRecordError,
    Phase,
    Reject,
    RequestContext,
    Retry,
    Stage,
    StageFrame,
    StageResult,
    ToolRequest,
    UsageDelta,
    approval_stage,
    current_call,
    record_pause,
    resume,
)
from turnfleet_kernel.testing import ManualClock, ScriptedModel, ToolBox, call, calls, make_plan

PAY = {
    "type": "object",
    "properties": {"amount": {"type": "number"}},
    "required": ["amount"],
    "additionalProperties": False,
}
QUESTION = {"question": "Which one?", "schema": {"type": "string", "enum": ["a", "b"]}}


class Shop:
    """A plan of two rounds: pay (needs approval), ask (a question), look (free); and what was really done."""

    def __init__(self, *, also: tuple[Stage, ...] = (), **limits: Any) -> None:
        self.done: list[Any] = []
        turn = ModelTurn(
            "Let me see.",
            UsageDelta(10, 5, 1),
            "tool_calls",
            (
                ToolRequest("p1", "pay", {"amount": 1}),
                ToolRequest("q1", "ask", {}),
                ToolRequest("l1", "look", {}),
                ToolRequest("p2", "pay", {"amount": 2}),
            ),
        )
        self.model = ScriptedModel([turn, ModelTurn(" All done.", UsageDelta(20, 5, 1), "stop")])
        functions: dict[str, Any] = {"pay": self.pay, "ask": self.ask, "look": self.look}
        stages = [approval_stage(lambda request: request.name == "pay"), *also]
        tools = ToolBox(functions, schemas={"pay": PAY})
        self.plan = make_plan(self.model, tools=tools, stages=stages, **limits)

    def pay(self, amount: float) -> str:
        """Pay."""
        self.done.append(("pay", amount))
        return f"paid {amount}"

    def ask(self) -> None:
        """Put a question."""
        self.done.append("asked")
        raise InvocationPaused(Interrupt("which", "question", QUESTION))

    def look(self) -> str:
        """Look."""
        self.done.append("looked")
        return "seen"


APPROVED: dict[str, Decision] = {"approval:p1": Approve(), "approval:p2": Approve()}


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


async def test_an_approval_says_what_is_asked() -> None:
    """Tool, arguments and their digest, the schema that an edit must fit; the event tells all (HK-6, EVT-11)."""
    first = await walk(Shop().plan)
    last = first.events[-1]
    assert [each.id for each in last.interrupts] == ["approval:p1", "approval:p2"]
    payload = last.interrupt.payload
    assert (payload["tool"], payload["arguments"], payload["schema"]) == ("pay", {"amount": 1}, PAY)
    assert len(payload["digest"]) == 64
    assert first.ctx.report is not None


async def test_edits_and_rejections() -> None:
    """An edit runs with the new arguments, a rejection is an outcome with its reason (HK-6)."""
    shop = Shop()
    first = await walk(shop.plan)
    decisions: dict[str, Decision] = {"approval:p1": Edit({"amount": 7}), "approval:p2": Reject("too much")}
    second = await go_on(shop.plan, first.record(), decisions)
    assert [event.arguments for event in second.of("tool_call")][::3] == [{"amount": 7}, {"amount": 2}]
    third = await go_on(shop.plan, second.record(), {"which": Reject()})
    assert [(each.value, each.error) for each in third.ctx.tool_outcomes] == [
        ("paid 7", None),
        (None, "rejected by a person"),
        ("seen", None),
        (None, "rejected by a person: too much"),
    ]
    assert ("pay", 2) not in shop.done


async def test_some_may_be_answered_and_the_rest_wait_on() -> None:
    """What was decided is kept, the others pause again, nothing is called before all are decided (HK-5)."""
    shop = Shop()
    first = await walk(shop.plan)
    again = await go_on(shop.plan, first.record(), {"approval:p2": Approve()})
    assert [each.id for each in again.ctx.interrupts] == ["approval:p1"]
    assert (shop.done, list(again.record().decisions)) == ([], ["approval:p2"])
    last = await go_on(shop.plan, again.record(), {"approval:p1": Approve()})
    assert [each.id for each in last.ctx.interrupts] == ["which"]
    assert shop.done == [("pay", 1), "asked", "looked", ("pay", 2)]


async def test_calls_that_wait_are_not_made_again() -> None:
    """Two tools pause in one round; one is answered, the other is not called for it, whatever the limit (HK-5)."""
    for limit in (1, 2, 8):
        made: list[str] = []

        def ask(name: str, made: list[str] = made) -> None:
            made.append(name)
            raise InvocationPaused(Interrupt(f"ask {name}", "question"))

        asked = calls(*(ToolRequest(name, "ask", {"name": name}) for name in ("a", "b")))
        plan = make_plan([asked, "end"], tools={"ask": ask}, max_parallel_tools=limit)
        seen = await walk(plan)
        answers = 0
        while seen.kinds[-1] == "question":
            answers += 1
            seen = await go_on(plan, seen.record(), {seen.ctx.interrupts[-1].id: Answer(answers)})
        assert (sorted(made), answers) == (["a", "b"], 2)


@pytest.mark.parametrize(
    ("decision", "value", "calls_made"),
    [(Approve("it was sent"), "it was sent", 0), (Retry(), "sent 1", 1), (Edit({"n": 5}), "sent 5", 1)],
)
async def test_a_doubt_is_decided(decision: Any, value: str, calls_made: int) -> None:
    """It happened, with a value; call it again; call it differently (HK-6)."""
    sent: list[int] = []

    def send(n: int) -> str:
        sent.append(n)
        return f"sent {n}"

    class Doubtful(ToolBox):
        doubt = True

        async def call(self, request: ToolRequest) -> Any:
            if self.doubt:
                raise InvocationPaused(Interrupt("d", "in_doubt", {"tool": "send"}))
            return await super().call(request)

    tools = Doubtful({"send": send})
    plan = make_plan([call("send", "s1", n=1), "end"], tools=tools)
    first = await walk(plan)
    tools.doubt = False
    second = await go_on(plan, first.record(), {"d": decision})
    assert (second.ctx.tool_outcomes[0].value, len(sent)) == (value, calls_made)


async def test_a_tool_that_asked_for_approval_itself_sees_the_decision() -> None:
    """It is called again, and finds the decision in its call (HK-4)."""

    def pay(amount: int) -> str:
        this = current_call()
        assert this is not None
        if "sure?" not in this.decisions:
            raise InvocationPaused(Interrupt("sure?", "approval"))
        return f"paid {amount}"

    plan = make_plan([call("pay", "c", amount=1), "end"], tools={"pay": pay})
    first = await walk(plan)
    second = await go_on(plan, first.record(), {"sure?": Edit({"amount": 3})})
    assert second.ctx.tool_outcomes[0].value == "paid 3"


@pytest.mark.parametrize(
    ("decisions", "message"),
    [
        ({"other": Approve()}, "does not wait for 'other'; it waits for approval:p1, approval:p2"),
        ({"approval:p1": Answer("yes")}, "cannot be decided with 'answer'; it takes approve, edit, reject"),
        ({"approval:p1": Retry()}, "cannot be decided with 'retry'"),
        ({"approval:p1": Edit({"amount": "all"})}, "amount: must be of type number"),
    ],
)
async def test_a_decision_that_does_not_fit_is_refused(decisions: dict[str, Any], message: str) -> None:
    """By name, saying what would fit; nothing has changed (HK-6)."""
    shop = Shop()
    record = (await walk(shop.plan)).record()
    with pytest.raises(InvalidDecision, match=message):
        resume(shop.plan, record, ASK, decisions)
    assert (await go_on(shop.plan, record, APPROVED)).kinds[-1] == "question"


async def test_an_answer_must_fit_the_question() -> None:
    """The question's schema decides (HK-6)."""
    shop = Shop()
    second = await go_on(shop.plan, (await walk(shop.plan)).record(), APPROVED)
    with pytest.raises(InvalidDecision, match="must be one of 'a', 'b'"):
        resume(shop.plan, second.record(), ASK, {"which": Answer("c")})


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


async def test_interrupt_ids_are_unique_in_the_run() -> None:
    """A tool that asks under the same id in every round is asked about under different ones (HK-5)."""

    def ask() -> None:
        raise InvocationPaused(Interrupt("which", "question"))

    plan = make_plan([call("ask", "a"), call("ask", "b"), "end"], tools={"ask": ask})
    first = await walk(plan)
    second = await go_on(plan, first.record(), {"which": Answer(1)})
    assert [each.id for each in second.ctx.interrupts] == ["which#2"]
    third = await go_on(plan, second.record(), {"which#2": Answer(2)})
    assert [each.value for each in third.ctx.tool_outcomes] == [1, 2]


async def test_a_pause_takes_no_exception_handler(kernel: Any) -> None:
    """Code that catches Exception between tool and runner cannot turn it into an observation (HK-2)."""

    def ask() -> None:
        raise InvocationPaused(Interrupt("q", "question"))

    def careless() -> str:
        try:
            ask()
        except Exception:  # noqa: BLE001 - the point of the test
            return "swallowed"
        return "not asked"

    plan = make_plan([call("ask", "a")], tools={"ask": careless})
    ctx = RequestContext(plan)
    paused = await kernel.run(plan, ASK, context=ctx)
    assert (paused.run_id, [each.call_id for each in paused.interrupts]) == (ctx.run_id, ["a"])


async def test_what_is_not_reached_again_stays_open() -> None:
    """Two calls wait, the second started late; going on without news, the first keeps it from starting (HK-5)."""
    late_started = asyncio.Event()
    made: list[str] = []

    async def early() -> None:
        made.append("early")
        await late_started.wait()
        raise InvocationPaused(Interrupt("early", "question"))

    def late() -> None:
        made.append("late")
        late_started.set()
        raise InvocationPaused(Interrupt("late", "question"))

    asked = calls(*(ToolRequest(name, name, {}) for name in ("quick", "early", "late")))
    tools: dict[str, Any] = {"quick": lambda: 1, "early": early, "late": late}
    plan = make_plan([asked, "end"], tools=tools, max_parallel_tools=2)
    first = await walk(plan)
    assert [each.id for each in first.ctx.interrupts] == ["early", "late"]
    second = await go_on(plan, first.record(), {})
    assert [each.id for each in second.ctx.interrupts] == ["early", "late"]
    third = await go_on(plan, second.record(), {"early": Answer(1), "late": Answer(2)})
    assert [each.value for each in third.ctx.tool_outcomes] == [1, 1, 2]
    assert made == ["early", "late"]


async def test_interrupts_stand_in_request_order() -> None:
    """Whatever the order in which a stage names them (TOL-4, EVT-11)."""

    def backwards(frame: StageFrame) -> None:
        requests = reversed(frame.requests or ())
        raise InvocationPaused(*(Interrupt(f"i-{each.call_id}", "approval", {}, each.call_id) for each in requests))

    asked = calls(*(ToolRequest(name, "t", {}) for name in ("a", "b")))
    seen = await walk(make_plan([asked], tools={"t": lambda: 1}, stages=[Stage("s", Phase.PRE_TOOL, backwards)]))
    assert [each.id for each in seen.events[-1].interrupts] == ["i-a", "i-b"]
    assert seen.events[-1].interrupt.id == "i-a"
