"""Stages: what they see, what they may hand back, and what their failure means."""

import asyncio
import io
from typing import Any

import pytest
from kernel.kit import contents, walk

from turnfleet_kernel import (
    ContractViolationError,
    Phase,
    PromptAssembly,
    Stage,
    StageFrame,
    StageResult,
    StepCancelledError,
    ToolRequest,
)
from turnfleet_kernel.testing import ManualClock, ScriptedModel, call, calls, make_plan

TOOLS = {"add": lambda a: a}


async def test_async_and_plain_handlers_both_run() -> None:
    """A handler is called; what it gives is awaited where it can be (STG-1)."""
    ran: list[str] = []

    async def later(_: StageFrame) -> None:
        ran.append("async")

    stages = [Stage("a", Phase.PRE_MODEL, later), Stage("b", Phase.PRE_MODEL, lambda _: ran.append("plain"))]
    seen = await walk(make_plan(["x"], stages=stages))
    assert ran == ["async", "plain"]
    assert [(event.trace.stage_id, event.trace.outcome) for event in seen.of("stage")] == [("a", "ok"), ("b", "ok")]


async def test_a_failing_stage_ends_the_run_after_its_trace() -> None:
    """The trace comes before the terminal event; the failure is event and exception (STG-1, EVT-7)."""

    def explode(_: StageFrame) -> None:
        raise KeyError("gone")

    seen = await walk(make_plan(["x"], stages=[Stage("s", Phase.PRE_MODEL, explode)]))
    assert [event.kind for event in seen.events] == ["stage", "error"]
    assert seen.events[0].trace.outcome == "failed"
    assert seen.events[1].error == "KeyError: 'gone'"
    assert isinstance(seen.raised, KeyError)


async def test_a_stage_may_be_declared_to_fail_softly() -> None:
    """With on_error="continue" the run goes on, and the report remembers (STG-1)."""

    def explode(_: StageFrame) -> None:
        raise ValueError("no matter")

    seen = await walk(make_plan(["x"], stages=[Stage("s", Phase.PRE_MODEL, explode, on_error="continue")]))
    assert (seen.raised, seen.kinds[-1]) == (None, "done")
    assert seen.report.stage_failures == ("stage s: ValueError: no matter",)


async def test_each_phase_sees_what_it_has() -> None:
    """Earlier tool results before the model, the turn after it, requests, outcomes; nothing too early (STG-3)."""
    saw: dict[str, tuple[bool, ...]] = {}

    def look(frame: StageFrame) -> None:
        has = (frame.assembly, frame.transcript, frame.turn, frame.requests, frame.outcomes)
        saw[frame.phase.value] = tuple(each is not None for each in has)

    phases = [phase for phase in Phase if phase is not Phase.BIND]
    await walk(make_plan([call("add", a=1), "x"], tools=TOOLS, stages=[Stage(p.value, p, look) for p in phases]))
    assert saw == {
        "resolve": (False, False, False, False, False),
        "compile": (True, False, False, False, False),
        "pre-model": (True, True, False, False, False),
        "post-model": (True, True, True, False, False),
        "pre-tool": (True, True, True, True, False),
        "post-tool": (True, True, True, True, True),
        "finalize": (True, True, False, False, True),
    }


async def test_a_pre_model_stage_sees_earlier_tool_results() -> None:
    """The transcript of this round, results included (STG-3)."""
    saw: list[list[str]] = []
    stage = Stage("s", Phase.PRE_MODEL, lambda frame: saw.append([role for role, _ in contents(frame.transcript)]))
    await walk(make_plan([call("add", a=1), "x"], tools=TOOLS, stages=[stage]))
    assert saw == [["user"], ["user", "assistant", "tool"]]


async def test_a_pre_tool_stage_amends_requests() -> None:
    """From there on the loop uses what it returned, in the order of the requests (STG-3)."""

    def amend(frame: StageFrame) -> StageResult:
        doubled = [
            ToolRequest(each.call_id, each.name, {"a": each.arguments["a"] * 2}) for each in frame.requests or ()
        ]
        return StageResult(requests=tuple(reversed(doubled)))

    asked = calls(ToolRequest("c1", "add", {"a": 1}), ToolRequest("c2", "add", {"a": 2}))
    seen = await walk(make_plan([asked, "x"], tools=TOOLS, stages=[Stage("s", Phase.PRE_TOOL, amend)]))
    assert [(each.call_id, each.value) for each in seen.ctx.tool_outcomes] == [("c1", 2), ("c2", 4)]
    assert [event.arguments for event in seen.of("tool_call")] == [{"a": 2}, {"a": 4}]


@pytest.mark.parametrize("returned", [(), (ToolRequest("other", "add", {"a": 1}),)], ids=["dropped", "invented"])
async def test_a_pre_tool_stage_may_not_choose_calls(returned: tuple[ToolRequest, ...]) -> None:
    """A dropped call, or an id that was never reserved, is a violation naming the stage; nothing was called (STG-3)."""
    called: list[Any] = []
    stage = Stage("chooser", Phase.PRE_TOOL, lambda _: StageResult(requests=returned))
    seen = await walk(make_plan([call("add", "c1", a=1)], tools={"add": called.append}, stages=[stage]))
    assert isinstance(seen.raised, ContractViolationError)
    assert "'chooser'" in str(seen.raised)
    assert called == []


async def test_a_post_tool_stage_may_replace_the_transcript() -> None:
    """Compaction: the next model call sees the replacement (STG-3)."""
    model = ScriptedModel([call("add", a=1), "x"])
    short = [{"role": "user", "content": "short"}, {"role": "assistant", "content": ""}]
    stage = Stage("compact", Phase.POST_TOOL, lambda _: StageResult(transcript=list(short)))
    await walk(make_plan(model, tools=TOOLS, stages=[stage]))
    assert model.calls[1] == short


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.BIND])
@pytest.mark.parametrize("name", ["publish", "assembly", "requests", "transcript"])
async def test_a_stage_hands_back_what_its_phase_takes(phase: Phase, name: str) -> None:
    """Anything else is a violation naming the stage, whatever its failure policy says (STG-3, STG-8)."""
    takes = {"resolve": "publish", "compile": "assembly", "pre-tool": "requests", "post-tool": "transcript"}
    given: dict[str, Any] = {
        "publish": {"k": 1},
        "assembly": PromptAssembly("", "p"),
        "requests": (ToolRequest("c1", "add", {"a": 1}),),
        "transcript": [{"role": "user", "content": "t"}, {"role": "assistant", "content": ""}],
    }
    stage = Stage("s", phase, lambda _: StageResult(**{name: given[name]}), on_error="continue")
    seen = await walk(make_plan([call("add", "c1", a=1), "x"], tools=TOOLS, stages=[stage]))
    if takes.get(phase.value) == name:
        assert seen.raised is None
    else:
        assert isinstance(seen.raised, ContractViolationError)
        assert "stage 's'" in str(seen.raised)


async def test_a_stage_that_returns_something_else_is_a_violation() -> None:
    """A StageResult or None (STG-3)."""
    seen = await walk(make_plan(["x"], stages=[Stage("s", Phase.PRE_MODEL, lambda _: 3)]))
    assert isinstance(seen.raised, ContractViolationError)


async def test_resolved_inputs_are_collected_frozen_and_readable_later() -> None:
    """A list holding a dict holding a set comes out frozen, for every later phase (STG-8, RCX-6)."""
    saw: list[Any] = []

    def look(frame: StageFrame) -> None:
        saw.append(frame.resolved and frame.resolved["facts"])

    stages = [
        Stage("publish", Phase.RESOLVE, lambda _: StageResult(publish={"facts": [{"tags": {"a", "b"}}]})),
        Stage("compile", Phase.COMPILE, look),
        Stage("finalize", Phase.FINALIZE, look),
    ]
    seen = await walk(make_plan(["x"], stages=stages))
    assert seen.raised is None
    assert saw == [({"tags": frozenset({"a", "b"})},)] * 2
    with pytest.raises(TypeError):
        saw[0][0]["tags"] = 1


@pytest.mark.parametrize("twice", [False, True], ids=["open-file", "published-twice"])
async def test_what_cannot_be_published_is_a_violation_naming_the_stage(*, twice: bool) -> None:
    """An open file cannot be frozen; a key belongs to who published it first (STG-8)."""
    published: dict[str, object] = {"k": 1} if twice else {"k": io.StringIO()}
    stages = [Stage(name, Phase.RESOLVE, lambda _: StageResult(publish=published)) for name in ("one", "two")]
    seen = await walk(make_plan(["x"], stages=stages))
    assert isinstance(seen.raised, ContractViolationError)
    assert ("'two'" if twice else "'one'") in str(seen.raised)


async def test_compile_stages_amend_the_assembly_in_turn() -> None:
    """Each sees what the one before left; the turn is opened with the last (STG-8)."""

    def shout(frame: StageFrame) -> StageResult:
        assert frame.assembly is not None
        return StageResult(assembly=PromptAssembly("", frame.assembly.prompt + "!"))

    model = ScriptedModel(["x"])
    await walk(make_plan(model, stages=[Stage("a", Phase.COMPILE, shout), Stage("b", Phase.COMPILE, shout)]))
    assert contents(model.calls[0]) == [("user", "do it!!")]


async def test_scratch_is_per_invocation_and_namespace() -> None:
    """What one capability notes, neither another nor another run reads (RCX-7)."""
    saw: list[Any] = []

    def note(frame: StageFrame) -> None:
        saw.append(dict(frame.scratch("mine")))
        frame.scratch("mine")["n"] = 1
        assert frame.scratch("other") == {}

    plan = make_plan(["x"], stages=[Stage("a", Phase.PRE_MODEL, note), Stage("b", Phase.POST_MODEL, note)])
    await walk(plan)
    await walk(plan)
    assert saw == [{}, {"n": 1}, {}, {"n": 1}]


async def test_a_stage_does_not_run_on_spent_time() -> None:
    """Each dispatch is charged to the run's deadline, also where nothing is awaited (STG-4)."""
    clock, ran = ManualClock(), list[str]()

    def slow(_: StageFrame) -> None:
        ran.append("slow")
        clock.advance(11)

    stages = [
        Stage("slow", Phase.FINALIZE, slow),
        Stage("late", Phase.FINALIZE, lambda _: ran.append("late")),
    ]
    seen = await walk(make_plan(["x"], stages=stages, clock=clock, deadline_seconds=10))
    assert (ran, seen.report.reason, seen.kinds[-1]) == (["slow"], "deadline", "error")
    assert str(seen.raised).endswith("while running stage late")


async def test_a_plain_stage_that_cancels_itself_is_an_error() -> None:
    """Nobody can cancel a run in the middle of plain code (CXL-3)."""

    def cancels(_: StageFrame) -> None:
        raise asyncio.CancelledError

    seen = await walk(make_plan(["x"], stages=[Stage("s", Phase.PRE_MODEL, cancels)]))
    assert isinstance(seen.raised, StepCancelledError)
    assert (seen.report.reason, seen.kinds[-1]) == ("error", "error")
