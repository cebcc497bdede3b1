"""The published JSON Schemas say what is written: every kind of event, an outcome, every decision; and no more."""

import json
from datetime import UTC, datetime
from typing import Any

import jsonschema
import pytest
from pydantic import ValidationError

from turnfleet import (
    Answer,
    Approve,
    Decision,
    Edit,
    InvocationOutcome,
    KernelEvent,
    PlanSpec,
    Reject,
    Retry,
    ToolOutcome,
    UsageDelta,
    decision_from_json,
    event_to_json,
)
from turnfleet.wire import decision_schema, event_schema, outcome_schema, plan_schema
from turnfleet_kernel import Interrupt, StageTrace
from turnfleet_kernel.contracts.events import FLEET_KINDS, KERNEL_KINDS, EventKind
from turnfleet_kernel.contracts.json import decision_to_json, outcome_to_json

OUTCOME = InvocationOutcome(
    text="two",
    output={"n": 2},
    messages=({"role": "user", "content": "1 + 1?"},),
    tool_outcomes=(
        ToolOutcome("c1", "add", 2),
        ToolOutcome("c2", "add", None, "no numbers", 1.5, UsageDelta(requests=1)),
    ),
    usage=UsageDelta(input_tokens=7),
    run_id="r",
    duration_ms=3.5,
    stop_reason=None,
)
WAITING = Interrupt("approval:c1", "approval", {"tool": "add", "arguments": {}, "digest": "d"}, "c1")
PAUSE = {"interrupt": WAITING, "interrupts": (WAITING,)}


def _event(kind: EventKind, **payload: Any) -> KernelEvent:
    return KernelEvent("r", 0, kind, datetime.now(UTC), payload)


EVENTS = [
    _event("stage", trace=StageTrace("s", "pre-tool", "ok", 0.1)),
    _event("text_delta", text="t"),
    _event("reasoning_delta", text="t"),
    _event("tool_call_delta", text="t"),
    _event("tool_call", call_id="c1", name="add", arguments={"a": 1}),
    _event("tool_result", call_id="c1", name="add", outcome=OUTCOME.tool_outcomes[1]),
    _event("progress", call_id="c1", value=[1]),
    _event("child", run_id="child", parent_run_id="r", event=_event("text_delta", text="t")),
    _event("usage", usage=UsageDelta(requests=1), total=UsageDelta(requests=2), round=1),
    _event("approval", **PAUSE),
    _event("question", **PAUSE),
    _event("in_doubt", **PAUSE),
    _event("done", outcome=OUTCOME),
    _event("error", error="TypeError: no"),
    _event("cancelled", reason=""),
    _event("expired", reason=""),
    _event("resumed", attempt=2),
    _event("rewind", to_index=3),
]
DECISIONS: list[Decision] = [Approve(), Approve({"ok": True}), Edit({"a": 2}), Reject("no"), Answer([1]), Retry()]


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value))


def test_the_samples_are_of_every_kind() -> None:
    """A new kind of event needs a sample here, and so a place in the schema."""
    assert {event.kind for event in EVENTS} == KERNEL_KINDS | FLEET_KINDS


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.kind)
def test_an_event_fits_its_schema_and_only_whole(event: KernelEvent) -> None:
    """As it is written it fits; without any one of its fields it does not."""
    written = _plain(event_to_json(event))
    validator = jsonschema.Draft202012Validator(event_schema())
    validator.validate(written)
    for name in written:
        assert not validator.is_valid({key: value for key, value in written.items() if key != name}), name


def test_an_outcome_fits_its_schema() -> None:
    """As it is written; and not without its run's id."""
    written = _plain(outcome_to_json(OUTCOME))
    validator = jsonschema.Draft202012Validator(outcome_schema())
    validator.validate(written)
    assert not validator.is_valid({**written, "run_id": 7})


@pytest.mark.parametrize("decision", DECISIONS, ids=repr)
def test_a_decision_fits_its_schema_and_only_with_its_kind(decision: Decision) -> None:
    """Schema and reader agree on what a decision is."""
    written = _plain(decision_to_json(decision))
    validator = jsonschema.Draft202012Validator(decision_schema())
    validator.validate(written)
    assert decision_from_json(written) == decision
    for wrong in ({**written, "kind": "shrug"}, {**written, "extra": 1}, {"value": 1}):
        assert not validator.is_valid(wrong)
        with pytest.raises(ValidationError):
            decision_from_json(wrong)


def test_a_plan_fits_its_schema() -> None:
    """The file form that `turnfleet enqueue` reads."""
    plan = PlanSpec(name="p", instructions="i", model="m", tools=("t",), response={"type": "object"})
    validator = jsonschema.Draft202012Validator(plan_schema())
    validator.validate(plan.model_dump(mode="json"))
    assert not validator.is_valid({"name": "p"})
