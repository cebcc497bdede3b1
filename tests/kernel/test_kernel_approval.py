"""Asking a person before a call: what was approved is what runs, and a call is asked about once."""

from typing import Any

from kernel.kit import go_on, walk

from turnfleet_kernel import (
    Answer,
    Approve,
    Decided,
    Edit,
    Interrupt,
    InvocationPaused,
    InvocationPlan,
    Phase,
    Reject,
    Stage,
    StageFrame,
    StageResult,
    ToolRequest,
    approval_stage,
)
from turnfleet_kernel.testing import ToolBox, call, calls, make_plan


class Rate:
    """A plan that converts an amount at a rate, which a stage puts into the call, and then asks for approval."""

    def __init__(self) -> None:
        self.rate = 2
        self.paid: list[Any] = []
        stages = [Stage("rate", Phase.PRE_TOOL, self._convert), approval_stage(lambda _: True)]
        tools = {"pay": lambda amount, rate: self.paid.append((amount, rate))}
        self.plan: InvocationPlan = make_plan([call("pay", "p", amount=10), "end"], tools=tools, stages=stages)

    def _convert(self, frame: StageFrame) -> StageResult:
        amended = [
            ToolRequest(each.call_id, each.name, {**each.arguments, "rate": self.rate}) for each in frame.requests or ()
        ]
        return StageResult(requests=tuple(amended))


async def test_what_was_shown_is_what_runs() -> None:
    """The interrupt shows what earlier stages made of the call, and that is what is called (HK-6)."""
    rate = Rate()
    first = await walk(rate.plan)
    assert first.events[-1].interrupt.payload["arguments"] == {"amount": 10, "rate": 2}
    second = await go_on(rate.plan, first.record(), {"approval:p": Approve()})
    assert (second.kinds[-1], rate.paid) == ("done", [(10, 2)])


async def test_what_changed_during_the_pause_is_asked_about_again() -> None:
    """Stages run again; nothing runs that nobody saw (HK-4, HK-6)."""
    rate = Rate()
    first = await walk(rate.plan)
    rate.rate = 3
    second = await go_on(rate.plan, first.record(), {"approval:p": Approve()})
    assert (second.kinds[-1], rate.paid) == ("approval", [])
    (again,) = second.ctx.interrupts
    assert (again.id, again.payload["arguments"]) == ("approval:p#2", {"amount": 10, "rate": 3})
    third = await go_on(rate.plan, second.record(), {"approval:p#2": Approve()})
    assert (third.kinds[-1], rate.paid) == ("done", [(10, 3)])


async def test_a_later_decision_takes_the_place_of_an_earlier_one() -> None:
    """Asked again, the person may refuse what was approved before (HK-6)."""
    rate = Rate()
    first = await walk(rate.plan)
    rate.rate = 3
    second = await go_on(rate.plan, first.record(), {"approval:p": Approve()})
    third = await go_on(rate.plan, second.record(), {"approval:p#2": Reject("too dear")})
    assert (third.ctx.tool_outcomes[0].error, rate.paid) == ("rejected by a person: too dear", [])


async def test_an_edit_is_what_the_person_wrote() -> None:
    """Whatever stages make of the call meanwhile: the new arguments were seen by who wrote them (HK-6)."""
    rate = Rate()
    first = await walk(rate.plan)
    rate.rate = 3
    second = await go_on(rate.plan, first.record(), {"approval:p": Edit({"amount": 1, "rate": 1})})
    assert (second.kinds[-1], rate.paid) == ("done", [(1, 1)])


async def test_a_policy_is_asked_once_about_a_call() -> None:
    """A call that was let through has its outcome, or its answer: it is not asked about when the run goes on (HK-4)."""
    answers = {"free": [False, True], "question": [False, True], "guarded": [True, True]}

    def fickle(request: ToolRequest) -> bool:
        return answers[str(request.call_id)].pop(0)

    def ask() -> None:
        raise InvocationPaused(Interrupt("which", "question"))

    tools = {"free": lambda: "done", "question": ask, "guarded": lambda: "paid"}
    asked = calls(*(ToolRequest(name, name, {}) for name in tools))
    plan = make_plan([asked, "end"], tools=tools, stages=[approval_stage(fickle)])
    first = await walk(plan)
    assert [each.id for each in first.ctx.interrupts] == ["approval:guarded"]
    answers |= {"free": [False, True], "question": [False, True]}
    second = await go_on(plan, first.record(), {"approval:guarded": Approve()})
    assert [each.id for each in second.ctx.interrupts] == ["which"]
    third = await go_on(plan, second.record(), {"which": Answer("a")})
    assert [each.value for each in third.ctx.tool_outcomes] == ["done", "a", "paid"]
    assert answers == {"free": [True], "question": [True], "guarded": [True]}


async def test_a_stage_sees_what_was_decided_and_what_is_known() -> None:
    """With what the person was shown; in a fresh round there is nothing of either (HK-3, STG-3)."""
    saw: list[tuple[list[str], list[str]]] = []

    def look(frame: StageFrame) -> None:
        assert all(isinstance(each, Decided) for each in frame.decided.values())
        saw.append((list(frame.decided), list(frame.known)))

    asked = calls(ToolRequest("a", "quick", {}), ToolRequest("b", "ask", {}))
    stages = [Stage("look", Phase.PRE_TOOL, look)]

    def ask() -> None:
        raise InvocationPaused(Interrupt("q", "question"))

    plan = make_plan([asked, call("quick", "c"), "end"], tools={"quick": lambda: 1, "ask": ask}, stages=stages)
    first = await walk(plan)
    await go_on(plan, first.record(), {"q": Answer(2)})
    assert saw == [([], []), (["q"], ["a"]), ([], [])]


async def test_an_edit_of_a_doubt_replaces_what_an_edit_before_it_made() -> None:
    """Approved with changes, then in doubt, then to be called differently: the last word counts (HK-6)."""
    sent: list[int] = []

    def send(n: int) -> None:
        sent.append(n)

    class Doubtful(ToolBox):
        doubt = True

        async def call(self, request: ToolRequest) -> Any:
            if self.doubt:
                payload = {"tool": "send", "arguments": dict(request.arguments)}
                raise InvocationPaused(Interrupt("d", "in_doubt", payload))
            return await super().call(request)

    tools = Doubtful({"send": send})
    plan = make_plan([call("send", "s", n=1), "end"], tools=tools, stages=[approval_stage(lambda _: True)])
    first = await walk(plan)
    second = await go_on(plan, first.record(), {"approval:s": Edit({"n": 2})})
    tools.doubt = False
    third = await go_on(plan, second.record(), {"d": Edit({"n": 3})})
    assert (third.kinds[-1], sent) == ("done", [3])
