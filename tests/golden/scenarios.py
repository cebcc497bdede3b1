"""What runs of a release leave behind: how each is made to stop, and how it goes on."""

import json
from dataclasses import dataclass, field
from typing import Any, Literal

from golden.fleet import ANSWER

from turnfleet_kernel import PlanSpec

Stop = Literal["new", "end", "pause", "lost", "released", "failed", "cancelled", "expired"]


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A run. `stops`: how its invocations before the file end, one after another; the last says how the file leaves it.

    `decided`: decisions taken before the file is made, in the order of the open interrupts. `decide`: those that are
    taken when it goes on. A run that has ended does not go on.
    """

    name: str
    steps: Any
    plan: dict[str, Any] = field(default_factory=dict)
    request: dict[str, Any] = field(default_factory=dict)
    stops: tuple[Stop, ...] = ("pause",)
    decided: tuple[dict[str, Any], ...] = ()
    decide: tuple[dict[str, Any], ...] = ()

    @property
    def spec(self) -> PlanSpec:
        """The run's plan."""
        return PlanSpec.model_validate({"name": self.name, "model": "spelled", **self.plan})

    @property
    def body(self) -> dict[str, Any]:
        """The run's request as it travels."""
        return {"prompt": json.dumps(self.steps), **self.request}


APPROVE = {"kind": "approve", "value": None}
PAY = ["p1", "pay", {"amount": 5}]
LOOK = ["l1", "look", {"what": "a"}]
STAY = ["s1", "stay", {}]
ASK = ["q1", "ask", {"question": "How many?", "schema": {"type": "integer"}}]
CHILD = [["d1", "child", {"prompt": json.dumps([[PAY, LOOK], "helped"])}]]
CHILD_AT_WORK = [["d1", "child", {"prompt": json.dumps([[LOOK], [STAY], "helped"])}]]
SHOWN = {
    "say": "Hello there",
    "calls": [LOOK],
    "shown": [["reasoning", "hm"], ["text", "Hello "], ["text", "there"], ["tool_call", '{"what"']],
    "provider": {"signature": "abc"},
}

SCENARIOS = (
    Scenario(name="fresh", steps=["end"], stops=("new",), request={"history": [{"role": "user", "content": "before"}]}),
    Scenario(name="plain", steps=["end"], stops=("end",), request={"metadata": {"team": "a"}}),
    Scenario(name="tools", steps=[SHOWN, [LOOK[:1] + LOOK[1:]], "end"], plan={"tools": ("look",)}, stops=("end",)),
    Scenario(
        name="between", steps=[[LOOK], [["l2", "look", {"what": "b"}], STAY], "end"], plan={"tools": ("look", "stay")},
        stops=("lost",),
    ),
    Scenario(name="approval", steps=[[PAY], "end"], plan={"tools": ("pay",)}, decide=(APPROVE,)),
    Scenario(
        name="two-approvals", steps=[{"say": "both", "calls": [PAY, ["p2", "pay", {"amount": 7}]]}, "end"],
        plan={"tools": ("pay",)},
        decide=({"kind": "edit", "arguments": {"amount": 6}}, {"kind": "reject", "reason": "no"}),
    ),
    Scenario(
        name="question", steps=[[LOOK, ASK], "end"], plan={"tools": ("look", "ask")},
        decide=({"kind": "answer", "value": 3},),
    ),
    Scenario(
        name="in-doubt", steps=[[["c1", "charge", {"amount": 2}]], "end"], plan={"tools": ("charge",)},
        stops=("lost", "pause"), decide=({"kind": "approve", "value": "it was charged"},),
    ),
    Scenario(
        name="doubt-retried", steps=[[["c1", "charge", {"amount": 2}]], "end"], plan={"tools": ("charge",)},
        stops=("lost", "pause"), decide=({"kind": "retry"},),
    ),
    Scenario(
        name="decided", steps=[[PAY], "end"], plan={"tools": ("pay",)},
        decided=({"kind": "edit", "arguments": {"amount": 4}},),
    ),
    Scenario(name="paused-child", steps=[CHILD, "end"], plan={"delegates": ("child",)}, decide=(APPROVE,)),
    Scenario(name="child-at-work", steps=[CHILD_AT_WORK, "end"], plan={"delegates": ("child",)}, stops=("lost",)),
    Scenario(
        name="structured", steps=[[PAY], '{"total": 5}'], plan={"tools": ("pay",), "response": ANSWER},
        decide=(APPROVE,),
    ),
    Scenario(
        name="staged", steps=[[LOOK], [["l2", "look", {"what": "b"}]], [PAY], "end"], decide=(APPROVE,),
        plan={
            "model": {"quick": "spelled", "slow": "flaky"}, "tools": ("look", "pay"),
            "stages": ({"name": "choose", "settings": {"model": "quick", "tone": "kind"}}, "shorten"),
        },
    ),
    Scenario(name="retried", steps=["end"], plan={"model": "flaky"}, stops=("failed",)),
    Scenario(name="handed-over", steps=[[LOOK], "end"], plan={"tools": ("look",)}, stops=("released",)),
    Scenario(name="cut-off", steps=[{"say": "one two", "shown": [["text", "one "], ["text", "two"]]}],
        plan={"model": "slow"}, stops=("lost",)),
    Scenario(name="rewound", steps=[{"say": "one two", "shown": [["text", "one "], ["text", "two"]]}],
        plan={"model": "slow"}, stops=("lost", "end")),
    Scenario(name="cancelled", steps=[[PAY], "end"], plan={"tools": ("pay",)}, stops=("pause", "cancelled")),
    Scenario(name="expired", steps=["end"], stops=("expired",)),
)  # fmt: skip
