"""Plans: declared, named by their content, compiled."""

import math
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import ValidationError

from turnfleet_kernel import (
    KERNEL_OWNED_PHASES,
    InvocationKernel,
    InvocationOutcome,
    InvocationPlan,
    ModelPalette,
    Phase,
    PlanError,
    PlanLimits,
    PlanSpec,
    RequestContext,
    Stage,
    StageProgram,
    StageResult,
    StageSpec,
    TurnRequest,
    compile_plan,
    plan_id,
)
from turnfleet_kernel.ports import ModelPort, ResponsePort, ToolPort
from turnfleet_kernel.testing import ScriptedModel, ToolBox, call, make_plan


class SmallRegistry:
    """A registry of one of each kind, which counts how often it was asked to bind."""

    def __init__(self) -> None:
        self.bound = 0

    def known_names(self) -> Mapping[str, frozenset[str]]:
        """List one name or two of a kind."""
        return {
            "model": frozenset({"small"}),
            "tool": frozenset({"add", "drop"}),
            "stage": frozenset({"note"}),
            "delegate": frozenset(),
        }

    def has_model(self, name: str) -> bool:
        """Know one model and an open set."""
        return name == "small" or name.startswith("open:")

    def bind_tools(self, spec: PlanSpec) -> ToolPort:
        """Count, and bind the tools named."""
        self.bound += 1
        functions: dict[str, Any] = {"add": lambda a, b: a + b, "drop": lambda: "dropped"}
        return ToolBox({name: functions[name] for name in spec.tools})

    def bind_model(self, name: str, spec: PlanSpec, tools: ToolPort) -> ModelPort:
        """Bind a model that tells its name."""
        return ScriptedModel([call("drop"), f"{name} with {', '.join(tools.names())}"])

    def bind_stages(self, spec: PlanSpec) -> tuple[Stage, ...]:
        """Bind stages that do nothing."""
        return tuple(Stage(each.name, Phase.PRE_MODEL, lambda _: None) for each in spec.stages)

    def bind_response(self, spec: PlanSpec) -> ResponsePort | None:
        """Bind no response."""
        return None


# IPL-4: golden vectors; an id that changes orphans every run that was paused with it.
@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (PlanSpec(name="a", model="m"), "ee688e2614be9d37b57bd9229323d5aa537e1d5829c54482ba411bd5e6a57980"),
        (
            PlanSpec(
                name="rückerstattung",
                instructions="Be brief.",
                model={"cheap": "open:x", "good": "small"},
                tools=("add", "drop"),
                stages=(
                    StageSpec(name="note"),
                    StageSpec(name="note", settings={"b": [1, 2.5, None], "a": True}),
                ),
                limits=PlanLimits(max_model_rounds=3, deadline_seconds=1.5),
                response={"type": "object"},
                delegates=("helper",),
                version="2",
            ),
            "147705cea471bc8c43ef5de1210999fb67a2566c3651cc0a9a49fcea1fe847a4",
        ),
    ],
    ids=["smallest", "everything"],
)
def test_a_plan_is_named_by_its_content(spec: PlanSpec, expected: str) -> None:
    """The id is a SHA-256 over canonical JSON, the same on every machine and in every release (IPL-4)."""
    assert plan_id(spec) == expected


def test_defaults_do_not_enter_the_id() -> None:
    """Spelling a default out, or sending the plan through JSON, changes nothing (IPL-4)."""
    short = PlanSpec(name="a", model="m", stages=(StageSpec(name="s"),), limits=PlanLimits(max_depth=2))
    long = PlanSpec(
        name="a",
        instructions="",
        model="m",
        tools=(),
        stages=(StageSpec(name="s", settings={}),),
        limits=PlanLimits(max_model_rounds=8, max_depth=2),
        version="1",
    )
    again = PlanSpec.model_validate_json(long.model_dump_json())
    assert plan_id(short) == plan_id(long) == plan_id(again)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_refused(number: float) -> None:
    """NaN and infinities stand in no plan (IPL-4)."""
    with pytest.raises(ValidationError, match="not a finite number"):
        PlanSpec(name="a", model="m", stages=(StageSpec(name="s", settings={"deep": [number]}),))
    with pytest.raises(PlanError, match="deadline_seconds"):
        PlanLimits(deadline_seconds=number)


def test_a_number_too_wide_for_canonical_json_is_refused() -> None:
    """A whole number beyond 53 bits has no canonical form (IPL-4)."""
    spec = PlanSpec(name="wide", model="m", response={"maximum": 2**60})
    with pytest.raises(PlanError, match="'wide' has no id"):
        plan_id(spec)


def test_a_plan_cannot_be_changed_under_a_reader() -> None:
    """Everything in a spec is frozen, however deep (IPL-1)."""
    spec = PlanSpec(name="a", model={"x": "m"}, response={"required": ["total"]})
    with pytest.raises(ValidationError):
        setattr(spec, "name", "b")  # noqa: B010 - a type checker refuses the plain form
    assert spec.response is not None
    with pytest.raises(TypeError, match="cannot be changed"):
        spec.response["required"] = ()  # type: ignore[index]
    assert spec.response["required"] == ("total",)
    assert {spec: 1}[PlanSpec.model_validate_json(spec.model_dump_json())] == 1
    with pytest.raises(TypeError, match="cannot be changed"):
        spec.model["y"] = "m"  # type: ignore[index]


def test_a_stage_without_settings_may_be_named_by_its_name_alone() -> None:
    """For type checkers as well as at run time; lists do where tuples stand (IPL-3)."""
    spec = PlanSpec(name="a", model=["m", "n"], tools=["t"], stages=("audit", StageSpec(name="s", settings={"a": 1})))
    assert spec.stages == (StageSpec(name="audit"), StageSpec(name="s", settings={"a": 1}))
    assert (spec.model, spec.tools) == (("m", "n"), ("t",))


def test_a_plan_may_be_written_without_names() -> None:
    """In the order in which its fields are documented; too many values, or one given twice, are a caller's mistake."""
    spec = PlanSpec(
        "support", "Help.", "small", ("add",), ("note",), PlanLimits(max_depth=2), {"type": "string"}, (), "2"
    )
    named = PlanSpec(
        name="support",
        instructions="Help.",
        model="small",
        tools=("add",),
        stages=("note",),
        limits=PlanLimits(max_depth=2),
        response={"type": "string"},
        version="2",
    )
    assert spec == named
    assert PlanSpec("support", model="small") == PlanSpec(name="support", model="small")
    loose: Any = PlanSpec
    with pytest.raises(TypeError, match="takes 9 values, not 10: name, instructions, model"):
        loose(*"abcdefghij")
    with pytest.raises(TypeError, match="given name twice"):
        loose("support", name="support", model="small")


def test_the_wire_form_has_a_schema() -> None:
    """To publish, and for clients of other languages; making it warns of nothing (IPL-3)."""
    schema = PlanSpec.model_json_schema()
    assert (schema["required"], schema["additionalProperties"]) == (["name", "model"], False)
    assert set(schema["properties"]) == set(PlanSpec.model_fields)


@pytest.mark.parametrize(
    "nonsense",
    [
        {"max_model_rounds": 0},
        {"max_model_rounds": True},
        {"deadline_seconds": -1},
        {"teardown_grace_seconds": -0.1},
        {"max_parallel_tools": 0},
        {"max_depth": -1},
        {"max_total_tokens": 0},
    ],
    ids=str,
)
def test_limits_that_make_no_sense_are_refused_where_they_are_declared(nonsense: dict[str, Any]) -> None:
    """Not in the middle of a run, and naming the limit (IPL-7)."""
    with pytest.raises(PlanError, match=next(iter(nonsense))):
        PlanLimits(**nonsense)


def test_bind_belongs_to_the_kernel() -> None:
    """A stage declared there is refused by its name (STG-2)."""
    assert frozenset({Phase.BIND}) == KERNEL_OWNED_PHASES
    with pytest.raises(PlanError, match="'mine'"):
        Stage("mine", Phase.BIND, lambda _: None)


@pytest.mark.parametrize(
    ("phase", "on_error"), [(Phase.PRE_MODEL, "fail"), (Phase.FINALIZE, "fail"), (Phase.POST_MODEL, "continue")]
)
def test_an_egress_stage_that_could_hold_nothing_back_is_refused(phase: Phase, on_error: Any) -> None:
    """It judges a finished turn and its refusal counts, or it is none (STG-10)."""
    with pytest.raises(PlanError, match=r"governance\.egress"):
        StageProgram((Stage("governance.egress", phase, lambda _: None, on_error),))


async def test_compiling_binds_every_name(kernel: InvocationKernel) -> None:
    """The compiled form holds the same facts and runs (IPL-3)."""
    spec = PlanSpec(name="job", model="open:any", tools=("drop",), stages=(StageSpec(name="note"),), instructions="Go.")
    plan = compile_plan(spec, SmallRegistry())
    assert (plan.identity.plan_id, plan.identity.name, plan.instructions) == (plan_id(spec), "job", "Go.")
    outcome = await kernel.run(plan, TurnRequest("hi"))
    assert isinstance(outcome, InvocationOutcome)
    assert outcome.text == "open:any with drop"


def test_unknown_names_are_one_error_that_lists_them_all() -> None:
    """Every unknown name by kind, what exists instead, and nothing bound (IPL-3)."""
    registry = SmallRegistry()
    stages = (StageSpec(name="note"), StageSpec(name="x"))
    spec = PlanSpec(name="job", model="gone", tools=("add", "fly", "swim"), stages=stages, delegates=("bob",))
    with pytest.raises(PlanError) as refused:
        compile_plan(spec, registry)
    assert refused.value.unknown == {"model": ("gone",), "tool": ("fly", "swim"), "stage": ("x",), "delegate": ("bob",)}
    assert "known: add, drop" in str(refused.value)
    assert registry.bound == 0


async def test_a_tool_that_the_plan_does_not_name_cannot_be_called(kernel: InvocationKernel) -> None:
    """The bound tool port is the whole manifest, whatever the model asks for (IPL-5)."""
    plan = compile_plan(PlanSpec(name="job", model="small", tools=("add",)), SmallRegistry())
    outcome = await kernel.run(plan, TurnRequest("hi"))
    assert isinstance(outcome, InvocationOutcome)
    assert outcome.tool_outcomes[0].error == "there is no tool 'drop'; there is add"


@pytest.mark.parametrize(("published", "expected"), [({}, "first"), ({"model": "second"}, "second")])
async def test_resolved_inputs_may_choose_the_model(published: dict[str, str], expected: str) -> None:
    """One function of plan and context decides once, after prompt assembly (IPL-6)."""
    palette = ModelPalette({"first": ScriptedModel(["first"]), "second": ScriptedModel(["second"])})
    stage = Stage("choose", Phase.RESOLVE, lambda _: StageResult(publish=published))
    plan = make_plan(palette, stages=[stage])
    ctx = RequestContext(plan)
    outcome = await InvocationKernel().run(plan, TurnRequest("hi"), context=ctx)
    assert isinstance(outcome, InvocationOutcome)
    assert (outcome.text, ctx.model_name) == (expected, expected)


async def test_the_model_is_chosen_once(kernel: InvocationKernel) -> None:
    """A later round does not ask again (IPL-6)."""
    asked: list[str] = []
    model = ScriptedModel([call("add", a=1), call("add", a=2), "end"])

    def choose(plan: InvocationPlan, _: RequestContext) -> str:
        asked.append(plan.identity.name)
        return "only"

    palette = ModelPalette({"only": model}, choose)
    await kernel.run(make_plan(palette, tools={"add": lambda a: a}), TurnRequest("hi"))
    assert asked == ["test"]
