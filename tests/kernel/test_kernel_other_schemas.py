"""Going on in a build whose tools are not what they were: what has happened stays, what has not is checked (HK-4)."""

from typing import Any

import pytest

from turnfleet_kernel import (
    Answer,
    Approve,
    Interrupt,
    InvocationKernel,
    InvocationPaused,
    ModelTurn,
    Reject,
    RequestContext,
    ToolRequest,
    TurnRequest,
    approval_stage,
    record_pause,
    resume,
)
from turnfleet_kernel.contracts.interrupts import Decision
from turnfleet_kernel.testing import ListConversation, ScriptedModel, ToolBox, make_plan

STRICT = {"type": "object", "properties": {"why": {"type": "string"}}, "required": ["why"]}
REQUEST = TurnRequest("go")


def ask() -> None:
    """Put a question."""
    raise InvocationPaused(Interrupt("question:q", "question", {"question": "?", "schema": None}))


def build(made: list[str], schemas: dict[str, Any], *, approve: bool = False) -> Any:
    """Give a plan that acts and asks in one round."""
    calls = (ToolRequest("a", "act", {}), ToolRequest("q", "ask", {}))
    return make_plan(
        ScriptedModel([ModelTurn("", tool_requests=calls), "done"]),
        tools=ToolBox({"act": lambda: made.append("act"), "ask": ask}, schemas=schemas),
        stages=[approval_stage(lambda request: request.name == "act")] if approve else [],
    )


async def go_on(older: Any, newer: Any, *decisions: dict[str, Decision]) -> Any:
    """Pause in the older build; decide, and go on in the newer one, as often as it takes."""
    kernel, context = InvocationKernel(), RequestContext(older)
    outcome: Any = await kernel.run(older, REQUEST, context=context)
    record = record_pause(older, context)
    for decided in decisions:
        plan, request, context = resume(newer, record, REQUEST, decided)
        outcome = await kernel.run(plan, request, context=context)
        record = record_pause(plan, context) if context.lifecycle.reason == "paused" else record
    return outcome


async def test_an_outcome_that_is_known_is_not_held_to_a_new_schema() -> None:
    """HK-4: it comes back as recorded; as an error it would be made again by the model."""
    made: list[str] = []
    outcome = await go_on(build(made, {}), build(made, {"act": STRICT}), {"question:q": Answer("yes")})
    assert [each.error for each in outcome.tool_outcomes] == [None, None]
    assert made == ["act"]


async def test_a_decision_that_is_the_outcome_is_not_either() -> None:
    """HK-4: a rejection stays the rejection that a person gave."""
    made: list[str] = []
    older, newer = build(made, {}, approve=True), build(made, {"act": STRICT}, approve=True)
    outcome = await go_on(older, newer, {"approval:a": Reject("no")}, {"question:q": Answer("yes")})
    assert outcome.tool_outcomes[0].error == "rejected by a person: no"
    assert made == []


async def test_a_call_that_was_only_approved_is() -> None:
    """TOL-3: nothing has happened yet, and what is made now must fit."""
    made: list[str] = []
    older, newer = build(made, {}, approve=True), build(made, {"act": STRICT}, approve=True)
    outcome = await go_on(older, newer, {"approval:a": Approve()}, {"question:q": Answer("yes")})
    assert "do not fit the schema" in str(outcome.tool_outcomes[0].error)
    assert made == []


@pytest.mark.parametrize("dumped", ["a text", {"messages": []}, [1], [{"content": "no role"}], None])
def test_what_is_no_list_of_messages_is_not_loaded(dumped: Any) -> None:
    """Another port's dump is refused where it is read, not by the model that would be shown it."""
    with pytest.raises(ValueError, match="no list of messages"):
        ListConversation().load(dumped)
