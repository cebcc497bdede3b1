"""Runs that the deployed build leaves behind, what is said of each, and what becomes of it in the coming build."""

import json
from dataclasses import dataclass, field
from typing import Any

from preflight.builds import ANSWER

from turnfleet import PlanSpec

DONE = "completed"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One run. `before`: its state when the deployed build is gone. `after`: what it comes to once all is approved.

    `says`: verdict, and the kinds of findings with what they are about. `next`: how the verdict's next step begins.
    `effects`: what the coming build did for it, in any order. `error`: in the outcome of one of its calls, or its own.
    """

    name: str
    steps: Any
    before: str = "paused"
    says: str = "goes on"
    findings: tuple[tuple[str, str], ...] = ()
    next: str = ""
    after: str = DONE
    effects: tuple[str, ...] = ()
    error: str = ""
    plan: dict[str, Any] = field(default_factory=dict)

    @property
    def spec(self) -> PlanSpec:
        """The run's plan."""
        return PlanSpec.model_validate({"name": self.name, "model": "spelled", **self.plan})

    @property
    def prompt(self) -> str:
        """What makes the model do it."""
        return json.dumps(self.steps)


PAY = [["c1", "pay", {"amount": 5}]]
ASK = ["q1", "ask", {"question": "Which one?"}]


def delegated(name: str) -> Any:
    """Give the call of a delegate that pays."""
    return [["d1", name, {"prompt": json.dumps([PAY, "paid"])}]]


CASES = (
    Case(name="healthy", steps=[PAY, "end"], plan={"tools": ("pay",)}, next="calls pay", effects=("pay", "model")),
    Case(
        name="asked", steps=[[ASK], "end"], plan={"tools": ("ask",)}, next="asks the model spelled", effects=("model",)
    ),
    Case(
        name="optional-argument",
        steps=[[["c1", "mail", {"to": "a"}]], "end"],
        plan={"tools": ("mail",)},
        says="changed",
        findings=(("schema", "mail"),),
        next="calls mail",
        effects=("mail", "model"),
    ),
    Case(
        name="required-argument",
        steps=[[["c1", "refund", {"order_id": "1"}]], "end"],
        plan={"tools": ("refund",)},
        says="breaks",
        findings=(("arguments", "refund"),),
        effects=("model",),
        error="reason",
    ),
    Case(
        name="told",
        steps=[[*PAY, ["c2", "stamp", {"text": "x"}]], "end"],
        plan={"tools": ("pay", "stamp")},
        says="changed",
        findings=(("arguments", "stamp"),),
        next="calls pay",
        effects=("pay", "model"),
        error="ink",
    ),
    Case(
        name="receipt",
        steps=[[["c2", "stamp", {"text": "x"}], ASK], "end"],
        plan={"tools": ("stamp", "ask")},
        next="asks the model spelled",
        effects=("model",),
    ),
    Case(
        name="missing-tool",
        steps=[[["c1", "fax", {"to": "a"}]], "end"],
        plan={"tools": ("fax",)},
        says="breaks",
        findings=(("missing", "tool fax"),),
        after="parked",
    ),
    Case(
        name="missing-stage",
        steps=[PAY, "end"],
        plan={"tools": ("pay",), "stages": ("watch",)},
        says="breaks",
        findings=(("missing", "stage watch"),),
        after="parked",
    ),
    Case(
        name="missing-delegate",
        steps=[delegated("clerk"), "end"],
        plan={"delegates": ("clerk",)},
        says="breaks",
        findings=(("missing", "delegate clerk"),),
        after="parked",
    ),
    Case(
        name="delegate",
        steps=[delegated("helper"), "end"],
        plan={"delegates": ("helper",)},
        next="goes on with delegate.d1, which calls pay",
        effects=("pay", "model", "model"),
    ),
    Case(
        name="changed-delegate",
        steps=[delegated("scribe"), "end"],
        plan={"delegates": ("scribe",)},
        says="breaks",
        findings=(("delegate", "scribe"),),
        effects=("model",),
        error="was recorded with plan",
    ),
    Case(
        name="refusing-stage",
        steps=[PAY, "end"],
        plan={"tools": ("pay",), "stages": ("guard",)},
        says="breaks",
        findings=(("stage", "guard"),),
        after="failed",
        error="no payments on Sundays",
    ),
    Case(
        name="edited",
        steps=[[["c1", "order", {"sku": "a", "count": 1}]], "end"],
        plan={"tools": ("order",)},
        before="queued",
        says="breaks",
        findings=(("decision", "edited"),),
        after="failed",
        error="do not fit the schema",
    ),
    Case(
        name="expiring",
        steps=[[["c1", "order", {"sku": "a", "count": 1}]], "end"],
        plan={"tools": ("order",)},
        says="changed",
        findings=(("decision", "order"), ("schema", "order")),
        next="calls order",
        effects=("order", "model"),
    ),
    Case(
        name="parked-before",
        steps=[[["c1", "newcomer", {}]], "end"],
        plan={"tools": ("newcomer",)},
        before="parked",
        next="asks the model spelled",
        effects=("model", "newcomer", "model"),
    ),
    Case(
        name="altered",
        steps=[PAY, "end"],
        plan={"tools": ("pay",)},
        says="breaks",
        findings=(("plan id", "AlteredPlan"),),
        after="parked",
    ),
    Case(
        name="unreadable",
        steps=[PAY, "end"],
        plan={"tools": ("pay",)},
        says="breaks",
        findings=(("plan", "UnreadablePlan"),),
        after="parked",
    ),
    Case(
        name="newer-request",
        steps=[PAY, "end"],
        plan={"tools": ("pay",)},
        says="breaks",
        findings=(("request", "novelty"),),
        after="failed",
        error="novelty",
    ),
    Case(
        name="newer-journal",
        steps=[PAY, "end"],
        plan={"tools": ("pay",)},
        says="breaks",
        findings=(("journal", "NewerJournal"),),
        after="parked",
        error="a newer worker wrote it",
    ),
    Case(
        name="other-transcript",
        steps=[PAY, "end"],
        plan={"tools": ("pay",)},
        says="breaks",
        findings=(("transcript", "conversation"),),
        after="failed",
        error="no list of messages",
    ),
    Case(
        name="out-of-time",
        steps=[PAY, "end"],
        plan={"tools": ("pay",), "limits": {"deadline_seconds": 60}},
        says="breaks",
        findings=(("run", "deadline"),),
        after="failed",
        error="60.0 seconds",
    ),
    Case(
        name="in-doubt",
        steps=[[["c1", "charge", {"amount": 1}]], "end"],
        plan={"tools": ("charge",)},
        before="running",
        next="asks whether its call of charge happened",
        after="paused",
    ),
    Case(
        name="answered",
        steps=['{"total": 3}'],
        plan={"stages": ("commit",), "response": ANSWER},
        before="running",
        next="runs its stage commit",
        effects=("commit",),
    ),
    Case(
        name="misfit-answer",
        steps=['{"total": 3}'],
        plan={"stages": ("commit",), "response": ANSWER},
        before="running",
        says="breaks",
        findings=(("response", "ResponseError"),),
        after="failed",
        error="does not fit the response schema",
    ),
    Case(
        name="fresh",
        steps=["end"],
        before="queued",
        next="asks the model spelled",
        effects=("model",),
    ),
    Case(
        name="missing-model",
        steps=["end"],
        plan={"model": "retired"},
        before="queued",
        says="breaks",
        findings=(("missing", "model retired"),),
        after="parked",
    ),
    Case(name="due-later", steps=["end"], before="queued", next="asks the model spelled", after="queued"),
    Case(
        name="held",
        steps=["end"],
        before="queued",
        next="asks the model spelled",
        effects=("model",),
    ),
)
