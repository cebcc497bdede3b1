"""What people can decide, and what each decision does."""

from typing import Any

import pytest
from kernel.kit import ASK, go_on, walk
from kernel.shop import APPROVED, PAY, Shop

from turnfleet_kernel import (
    Answer,
    Approve,
    Decision,
    Edit,
    Interrupt,
    InvalidDecision,
    InvocationPaused,
    Reject,
    Retry,
    ToolRequest,
    current_call,
    resume,
)
from turnfleet_kernel.testing import ToolBox, call, make_plan


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
