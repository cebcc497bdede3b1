"""People in the loop, in-process: approvals and questions pause a run, and decisions take it on (HK-2 to HK-6)."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from turnfleet_kernel import (
    Answer,
    Approve,
    Decision,
    Edit,
    Interrupt,
    InvalidDecision,
    InvocationKernel,
    InvocationOutcome,
    InvocationPlan,
    PausedOutcome,
    PauseRecord,
    Phase,
    PlanSpec,
    Reject,
    RequestContext,
    Stage,
    StageFrame,
    StageResult,
    ToolRequest,
    TurnRequest,
    compile_plan,
    record_pause,
    resume,
)
from turnfleet_kernel.contracts.canonical import digest
from turnfleet_kernel.testing import ScriptedModel, call, calls
from turnfleet_worker.registry import Registry

ASKED = TurnRequest("Refund order A.", run_id="run-1")


class Desk:
    """A refund tool under a policy, the models that call it, and what it paid."""

    def __init__(self, *steps: Any, **policy: Any) -> None:
        self.paid: list[tuple[str, float]] = []
        self.registry = Registry()
        self.registry.model("m", ScriptedModel(steps))

        @self.registry.tool(**policy)
        def refund(order: str, amount: float = 100.0) -> str:
            """Refund an order."""
            self.paid.append((order, amount))
            return f"paid {amount}"

        @self.registry.tool
        def note(text: str) -> str:
            """Take a note."""
            return text

    def plan(self, *, stages: tuple[str, ...] = ()) -> InvocationPlan:
        """Compile the plan that has every tool."""
        tools = tuple(sorted(self.registry.known_names()["tool"]))
        spec = PlanSpec.model_validate({"name": "desk", "model": "m", "tools": tools, "stages": stages})
        return compile_plan(spec, self.registry)

    async def pause(self, plan: InvocationPlan) -> tuple[PauseRecord, tuple[Interrupt, ...]]:
        """Run until somebody has to decide; give the record, as it survives JSON, and what is open."""
        context = RequestContext(plan, run_id="run-1")
        outcome = await InvocationKernel().run(plan, ASKED, context=context)
        assert isinstance(outcome, PausedOutcome)
        return _stored(plan, context), outcome.interrupts

    async def go_on(self, plan: InvocationPlan, record: PauseRecord, decisions: Mapping[str, Decision]) -> Any:
        """Resume, and give the outcome."""
        plan, request, context = resume(plan, record, ASKED, decisions)
        return await InvocationKernel().run(plan, request, context=context)


def _stored(plan: InvocationPlan, context: RequestContext) -> PauseRecord:
    return PauseRecord.model_validate_json(record_pause(plan, context).model_dump_json())


def refund(call_id: str = "c1", **arguments: Any) -> Any:
    """Give a turn that asks for a refund."""
    return call("refund", call_id, **{"order": "A", **arguments})


async def test_an_approval_shows_what_would_run_and_runs_it_when_approved() -> None:
    """The interrupt holds tool, arguments and their digest, roles and schema; the fleet fills in the expiry."""
    desk = Desk(refund(amount=80.0), "Done.", approval=True, roles=("finance",), expires_in=60)
    plan = desk.plan()
    record, (interrupt,) = await desk.pause(plan)
    assert (interrupt.id, interrupt.kind, interrupt.call_id) == ("approval:c1", "approval", "c1")
    assert interrupt.payload == {
        "tool": "refund",
        "arguments": {"order": "A", "amount": 80.0},
        "digest": digest({"order": "A", "amount": 80.0}),
        "roles": ["finance"],
        "expires_at": None,
        "schema": plan.bindings.tools.schema("refund"),
    }
    assert desk.paid == []
    outcome = await desk.go_on(plan, record, {"approval:c1": Approve()})
    assert isinstance(outcome, InvocationOutcome)
    assert outcome.text == "Done."
    assert desk.paid == [("A", 80.0)]


async def test_an_edited_call_runs_with_the_persons_arguments() -> None:
    """And with those alone: the model's are not called."""
    desk = Desk(refund(amount=80.0), "Done.", approval=True)
    plan = desk.plan()
    record, _ = await desk.pause(plan)
    outcome = await desk.go_on(plan, record, {"approval:c1": Edit({"order": "A", "amount": 5})})
    assert [each.value for each in outcome.tool_outcomes] == ["paid 5.0"]
    assert desk.paid == [("A", 5.0)]


async def test_an_edit_that_does_not_fit_the_tool_is_refused() -> None:
    """Nothing has changed: the record can be answered again (HK-6)."""
    desk = Desk(refund(), "Done.", approval=True)
    plan = desk.plan()
    record, _ = await desk.pause(plan)
    with pytest.raises(InvalidDecision, match="amount"):
        await desk.go_on(plan, record, {"approval:c1": Edit({"order": "A", "amount": "much"})})
    await desk.go_on(plan, record, {"approval:c1": Approve()})
    assert desk.paid == [("A", 100.0)]


async def test_a_rejected_call_is_not_made_and_the_model_sees_the_reason() -> None:
    """As an error outcome; the run goes on."""
    desk = Desk(refund(), "As you wish.", approval=True)
    plan = desk.plan()
    record, _ = await desk.pause(plan)
    outcome = await desk.go_on(plan, record, {"approval:c1": Reject("not this customer")})
    assert [each.error for each in outcome.tool_outcomes] == ["rejected by a person: not this customer"]
    assert outcome.text == "As you wish."
    assert desk.paid == []


@pytest.mark.parametrize(("amount", "waits"), [(50, False), (51, True)])
async def test_a_predicate_on_the_arguments_decides_who_waits(amount: float, waits: bool) -> None:
    """Small refunds are paid at once, others are looked at."""
    desk = Desk(refund(amount=amount), "Done.", approval=lambda arguments: arguments["amount"] > 50)
    outcome = await InvocationKernel().run(desk.plan(), ASKED)
    assert isinstance(outcome, PausedOutcome) is waits
    assert bool(desk.paid) is not waits


async def test_a_predicate_sees_the_defaults_that_the_model_left_out() -> None:
    """Leaving out the amount does not get a refund of the default amount past the policy."""
    desk = Desk(refund(), approval=lambda arguments: arguments.get("amount", 0) > 50)
    await desk.pause(desk.plan())


async def test_a_predicate_that_raises_waits_for_a_person() -> None:
    """The safe side: nobody has looked at this call."""

    def broken(arguments: Mapping[str, Any]) -> bool:
        raise KeyError("limit")

    desk = Desk(refund(), approval=broken)
    await desk.pause(desk.plan())
    assert desk.paid == []


async def test_nobody_is_asked_about_a_call_that_cannot_be_made() -> None:
    """Arguments that do not fit come back to the model at once (TOL-3)."""
    desk = Desk(call("refund", "c1", amount=5), "I see.", approval=True)
    outcome = await InvocationKernel().run(desk.plan(), ASKED)
    assert isinstance(outcome, InvocationOutcome)
    assert outcome.tool_outcomes[0].error is not None
    assert "order" in outcome.tool_outcomes[0].error


async def test_no_call_of_the_round_starts_before_a_person_has_decided() -> None:
    """Two waiting calls are two interrupts; deciding one leaves the other open, and still nothing is called (HK-5)."""
    both = calls(
        ToolRequest("c1", "refund", {"order": "A"}),
        ToolRequest("c2", "note", {"text": "hm"}),
        ToolRequest("c3", "refund", {"order": "B"}),
    )
    desk = Desk(both, "Done.", approval=True)
    plan = desk.plan()
    record, interrupts = await desk.pause(plan)
    assert [interrupt.id for interrupt in interrupts] == ["approval:c1", "approval:c3"]
    plan_1, request, context = resume(plan, record, ASKED, {"approval:c1": Reject("no")})
    outcome = await InvocationKernel().run(plan_1, request, context=context)
    assert isinstance(outcome, PausedOutcome)
    assert [interrupt.id for interrupt in outcome.interrupts] == ["approval:c3"]
    final = await desk.go_on(plan, _stored(plan_1, context), {"approval:c3": Approve()})
    assert desk.paid == [("B", 100.0)]
    assert [each.error or each.value for each in final.tool_outcomes] == [
        "rejected by a person: no",
        "hm",
        "paid 100.0",
    ]


async def test_what_a_person_approves_is_what_runs_when_a_stage_amends_it() -> None:
    """The approval stage stands behind the plan's own: it asks about, and passes on, the amended arguments."""
    desk = Desk(refund(amount=10.0), "Done.", approval=lambda arguments: arguments["amount"] > 50)

    @desk.registry.stage("tenfold")
    def tenfold(settings: Any) -> Stage:
        def amend(frame: StageFrame) -> StageResult:
            return StageResult(
                requests=tuple(
                    ToolRequest(each.call_id, each.name, {**each.arguments, "amount": each.arguments["amount"] * 10})
                    for each in frame.requests or ()
                )
            )

        return Stage("tenfold", Phase.PRE_TOOL, amend)

    plan = desk.plan(stages=("tenfold",))
    record, (interrupt,) = await desk.pause(plan)
    assert interrupt.payload["arguments"] == {"order": "A", "amount": 100.0}
    await desk.go_on(plan, record, {"approval:c1": Approve()})
    assert desk.paid == [("A", 100.0)]


async def test_ask_puts_a_question_and_the_answer_is_the_calls_result() -> None:
    """A built-in tool; who may answer is configured on the registry."""
    schema = {"type": "string", "enum": ["red", "blue"]}
    desk = Desk(call("ask", "c1", question="Which one?", schema=schema), "Red it is.")
    desk.registry.ask(roles=("desk",), expires_in=60, on_expiry=Answer("red"))
    plan = desk.plan()
    record, (interrupt,) = await desk.pause(plan)
    assert (interrupt.id, interrupt.kind, interrupt.call_id) == ("question:c1", "question", "c1")
    assert interrupt.payload == {"question": "Which one?", "schema": schema, "roles": ["desk"], "expires_at": None}
    with pytest.raises(InvalidDecision, match="not fit the schema"):
        await desk.go_on(plan, record, {"question:c1": Answer("green")})
    outcome = await desk.go_on(plan, record, {"question:c1": Answer("red")})
    assert [each.value for each in outcome.tool_outcomes] == ["red"]
    assert outcome.text == "Red it is."


async def test_a_question_that_is_rejected_is_an_error_outcome() -> None:
    """The model goes on without an answer."""
    desk = Desk(call("ask", "c1", question="Which one?"), "Then not.")
    plan = desk.plan()
    record, (interrupt,) = await desk.pause(plan)
    assert interrupt.payload["schema"] is None
    outcome = await desk.go_on(plan, record, {"question:c1": Reject("you know that")})
    assert [each.error for each in outcome.tool_outcomes] == ["rejected by a person: you know that"]


async def test_siblings_of_a_question_are_finished_first() -> None:
    """A call that waits does not cut off the others; their outcomes are not asked for again (TOL-4)."""
    both = calls(
        ToolRequest("c1", "refund", {"order": "A"}),
        ToolRequest("c2", "ask", {"question": "And now?"}),
    )
    desk = Desk(both, "Done.")
    plan = desk.plan()
    record, _ = await desk.pause(plan)
    assert desk.paid == [("A", 100.0)]
    outcome = await desk.go_on(plan, record, {"question:c2": Answer("nothing")})
    assert desk.paid == [("A", 100.0)]
    assert [each.value for each in outcome.tool_outcomes] == ["paid 100.0", "nothing"]


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "nonsense"}, "it is no valid JSON Schema at type"),
        ({"pattern": "("}, "it is no valid JSON Schema at pattern"),
        ({"$ref": "#"}, "a $ref in it leads nowhere"),
        ({"properties": {"a": {"$ref": "#/$defs/a"}}}, "$ref '#/$defs/a' leads nowhere"),
        ({"allOf": [{"$ref": "http://127.0.0.1/"}]}, "$ref 'http://127.0.0.1/' is not a reference within the schema"),
        ({"$id": "file:///etc/passwd"}, "$id 'file:///etc/passwd' is not a reference within the schema"),
    ],
)
async def test_a_schema_that_no_answer_could_be_checked_against_is_an_error_outcome(schema: Any, problem: str) -> None:
    """The model corrects its question; no person is asked, and nothing is fetched."""
    desk = Desk(call("ask", "c1", question="Which one?", schema=schema), "Never mind.")
    outcome = await InvocationKernel().run(desk.plan(), ASKED)
    assert isinstance(outcome, InvocationOutcome)
    (asked,) = outcome.tool_outcomes
    assert asked.error is not None
    assert asked.error.startswith(f"ValueError: the answer's schema cannot be used: {problem}")
    assert asked.error.endswith("Call ask again with a corrected schema")


async def test_references_within_an_answers_schema_are_fine() -> None:
    """Also through escaped and quoted names."""
    schema = {"$defs": {"a~/b c": {"type": "integer"}}, "$ref": "#/$defs/a~0~1b%20c"}
    desk = Desk(call("ask", "c1", question="How many?", schema=schema), "Thanks.")
    plan = desk.plan()
    record, _ = await desk.pause(plan)
    outcome = await desk.go_on(plan, record, {"question:c1": Answer(3)})
    assert [each.value for each in outcome.tool_outcomes] == [3]


async def test_a_plan_that_does_not_list_ask_cannot_ask() -> None:
    """It is known to every registry, and callable by the plans that name it only (IPL-5)."""
    registry = Registry()
    registry.model("m", ScriptedModel([call("ask", "c1", question="?"), "Well."]))
    outcome = await InvocationKernel().run(compile_plan(PlanSpec(name="p", model="m"), registry), ASKED)
    assert isinstance(outcome, InvocationOutcome)
    assert outcome.tool_outcomes[0].error == "There is no tool 'ask' here. Tools: none."


async def _above_fifty(arguments: Mapping[str, Any]) -> bool:
    """Decide as something would that has to look elsewhere first."""
    await asyncio.sleep(0)
    return bool(arguments["amount"] > 50)


@pytest.mark.parametrize(("amount", "paid"), [(20.0, [("A", 20.0)]), (80.0, [])])
async def test_a_predicate_may_be_async(amount: float, paid: list[tuple[str, float]]) -> None:
    """What it says counts; that it is a coroutine function is not mistaken for a yes."""
    desk = Desk(refund(amount=amount), "Done.", approval=_above_fifty)
    await InvocationKernel().run(desk.plan(), ASKED)
    assert desk.paid == paid


async def test_a_predicate_that_raises_is_told_in_the_log_without_the_arguments(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The call waits, which is safe; whoever wonders why finds the line that raised."""
    desk = Desk(refund(amount=20.0), "Done.", approval=lambda args: args["amuont"] > 50)
    await desk.pause(desk.plan())
    (record,) = [each for each in caplog.records if each.name == "turnfleet_worker.policy"]
    assert "the approval predicate of tool 'refund' raised KeyError at " in record.message
    assert f"{__file__}:" in record.message
    assert "20.0" not in record.message
