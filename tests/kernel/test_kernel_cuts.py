"""A run that is handed over at any point and goes on elsewhere comes to what it would have come to."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel.kit import Walk, go_on, walk

from turnfleet_kernel import (
    PAUSE_KINDS,
    Answer,
    Approve,
    Decision,
    DelegationContext,
    Delta,
    Edit,
    Interrupt,
    InvocationKernel,
    InvocationPaused,
    InvocationPlan,
    InvocationPreempted,
    KernelEvent,
    ModelTurn,
    Phase,
    Reject,
    Stage,
    StageResult,
    ToolOutcome,
    ToolRequest,
    UsageDelta,
    approval_stage,
    delegate,
)
from turnfleet_kernel.ports import Transcript
from turnfleet_kernel.structured import JsonResponse
from turnfleet_kernel.testing import CountingIds, ListConversation, ManualClock, ScriptedModel, ToolBox, make_plan


class Points:
    """Where a run can be handed over, counted as they are passed; the one that is reached first is taken."""

    def __init__(self) -> None:
        self.passed: list[str] = []
        self.cut_at: int | None = None

    def pass_through(self, name: str) -> None:
        """Pass a point, or be cut there."""
        self.passed.append(name)
        if self.cut_at == len(self.passed) - 1:
            raise InvocationPreempted(name)


class CutModel(ScriptedModel):
    """A model that can be cut off before its turn, between its words, and when the turn is whole."""

    def __init__(self, steps: list[Any], points: Points) -> None:
        super().__init__(steps)
        self._points = points

    def _place(self, transcript: Transcript) -> int:
        """Go by the transcript alone: a turn that was cut off has to be said again."""
        return sum(message["role"] == "assistant" for message in transcript)

    async def invoke(self, transcript: Transcript) -> ModelTurn:
        """Take the next step."""
        self._points.pass_through("model asked")
        turn = await super().invoke(transcript)
        self._points.pass_through("model answered")
        return turn

    def stream(self, transcript: Transcript) -> Any:
        """Take the next step, word by word."""
        self._points.pass_through("model asked")
        return _CutRound(super().stream(transcript), self._points)


class _CutRound:
    def __init__(self, inner: Any, points: Points) -> None:
        self._inner = inner
        self._points = points

    async def deltas(self) -> AsyncIterator[Delta]:
        async with aclosing(self._inner.deltas()) as deltas:
            async for delta in deltas:
                yield delta
                self._points.pass_through("model said a word")

    def result(self) -> ModelTurn:
        turn: ModelTurn = self._inner.result()
        return turn


class CutTools(ToolBox):
    """Tools before each of which, and after each of which, the run can be cut."""

    def __init__(self, functions: dict[str, Callable[..., Any]], points: Points) -> None:
        super().__init__(functions)
        self._points = points

    async def call(self, request: ToolRequest) -> ToolOutcome:
        """Call the function."""
        self._points.pass_through("tool called")
        outcome = await super().call(request)
        if request.name != "child":
            # What a child came to is in its own record; losing that as well would run it twice.
            self._points.pass_through("tool done")
        return outcome


class CutConversation(ListConversation):
    """A conversation that can be cut off before a round is closed into it, and before it is opened."""

    def __init__(self, points: Points) -> None:
        self._points = points

    def open_turn(self, assembly: Any) -> Any:
        """Open the transcript."""
        self._points.pass_through("turn opened")
        return super().open_turn(assembly)

    def close_round(self, transcript: Any, turn: Any, requests: Any, outcomes: Any) -> None:
        """Close the round."""
        self._points.pass_through("round closed")
        super().close_round(transcript, turn, requests, outcomes)


class CutResponse(JsonResponse):
    """A response port that can be cut off."""

    def __init__(self, points: Points) -> None:
        super().__init__({"type": "object"})
        self._points = points

    async def extract(self, transcript: Transcript) -> object:
        """Read the output."""
        self._points.pass_through("output extracted")
        return await super().extract(transcript)


REPEATABLE = [Phase.PRE_MODEL, Phase.POST_MODEL, Phase.PRE_TOOL, Phase.FINALIZE]
"""Stages run again on a replayed turn. Those of post-tool are not among them: a closed round is loaded (HK-4)."""


def job(points: Points) -> InvocationPlan:
    """Make a plan that does all there is: calls at once and alone, approvals, a question, a child agent, an output."""
    first = ModelTurn(
        "Let me look. ",
        UsageDelta(3, 2, 1),
        "tools",
        (ToolRequest("look", "look", {"at": 1}), ToolRequest(None, "look", {"at": 2}), ToolRequest("x", "fail", {})),
    )
    second = ModelTurn(
        "Now act. ",
        UsageDelta(5, 2, 1),
        "tools",
        (
            ToolRequest("pay", "pay", {"amount": 5}),
            ToolRequest("ask", "ask", {}),
            ToolRequest("look", "look", {"at": 3}),
            ToolRequest("child", "child", {"prompt": "help"}),
        ),
    )
    last = ModelTurn('{"done": true}', UsageDelta(7, 2, 1), "stop")

    def fail() -> None:
        raise LookupError("nothing there")

    def ask() -> None:
        raise InvocationPaused(Interrupt("which", "question"))

    functions: dict[str, Callable[..., Any]] = {
        "look": lambda at: {"seen": [at]},
        "pay": lambda amount: f"paid {amount}",
        "fail": fail,
        "ask": ask,
        "child": delegate(InvocationKernel(), DelegationContext(), "child", child(points)),
    }
    stages = [
        Stage("facts", Phase.RESOLVE, lambda _: StageResult(publish={"facts": {"n": [1]}})),
        *(Stage(f"at-{phase.value}", phase, passing(points, phase)) for phase in REPEATABLE),
        Stage("compact", Phase.POST_TOOL, compact),
        approval_stage(lambda request: request.name == "pay"),
    ]
    return make_plan(
        CutModel([first, second, last], points),
        CutTools(functions, points),
        stages,
        conversation=CutConversation(points),
        response=CutResponse(points),
        clock=ManualClock(),
        ids=CountingIds("fresh"),
    )


def child(points: Points) -> InvocationPlan:
    """Make the child: one call that needs approval, and an answer."""
    turn = ModelTurn("", UsageDelta(1, 1, 1), "tools", (ToolRequest("c", "pay", {"amount": 1}),))
    return make_plan(
        CutModel([turn, "helped"], points),
        CutTools({"pay": lambda amount: amount}, points),
        [approval_stage(lambda _: True)],
        conversation=CutConversation(points),
        clock=ManualClock(),
        name="child",
    )


def passing(points: Points, phase: Phase) -> Callable[[object], None]:
    """Make a stage that can be cut off."""
    return lambda _: points.pass_through(f"stage in {phase.value}")


def compact(frame: Any) -> StageResult:
    """Put a note in place of the first message: the transcript is another one from there on."""
    note = {"role": "user", "content": f"{len(frame.outcomes)} results ago"}
    return StageResult(transcript=[note, *frame.transcript[1:]])


DECISIONS: dict[str, Decision] = {
    "approval:pay": Edit({"amount": 2}),
    "which": Answer("this one"),
    "r.child:approval:c": Approve(),
}


async def run_with_cuts(cuts: list[int], *, streamed: bool) -> tuple[list[Walk], Points]:
    """Run to the end, deciding whatever is asked, cut once in each of the first invocations."""
    points = Points()
    plan, left = job(points), list(cuts)
    points.cut_at = left.pop(0) if left else None
    walks = [await walk(plan, run_id="r", streamed=streamed)]
    while (last := walks[-1]).kinds[-1:] not in (["done"], ["error"]):
        assert last.raised is None or isinstance(last.raised, InvocationPreempted)
        record = last.record()
        if left and isinstance(last.raised, InvocationPreempted):
            points.cut_at = len(points.passed) + left.pop(0)
        elif isinstance(last.raised, InvocationPreempted):
            points.cut_at = None
        decisions = {each.id: DECISIONS[each.id] for each in record.interrupts}
        walks.append(await go_on(plan, record, decisions, streamed=streamed))
        assert len(walks) < 20
    return walks, points


MAY_REPEAT = {"stage", "text_delta", *PAUSE_KINDS}
"""Of a child, when its root goes on: that it waits, and the words of a turn that was cut off."""


def what_counts(walks: list[Walk]) -> dict[str, list[Any]]:
    """List the events of a run, without stage events, and without those of a turn that was cut off (a rewind's).

    Results and children's events apart: of calls that run at once, those that were not cut off are told first.
    """
    counting: list[KernelEvent] = []
    for seen in walks:
        counting.extend(event for event in seen.events if event.kind != "stage")
        if isinstance(seen.raised, InvocationPreempted) and (seen.ctx.round is None or seen.ctx.round.turn is None):
            while counting and counting[-1].kind.endswith("_delta"):
                counting.pop()
    apart = [event for event in counting if event.kind in {"tool_result", "child"}]
    return {
        "run": [told(event) for event in counting if event not in apart],
        "results": sorted((told(event) for event in apart if event.kind == "tool_result"), key=str),
        "children": [told(event) for event in apart if event.kind == "child" and event.event.kind not in MAY_REPEAT],
    }


def told(event: KernelEvent) -> Any:
    """Give what an event says: without its place, which a repeated stage event before it moves, and durations."""
    payload = dict(event.payload)
    if event.kind == "child":
        payload["event"] = told(event.event)
    if event.kind in {"done", "tool_result"}:
        payload["outcome"] = replace(payload["outcome"], duration_ms=0.0)
    return event.kind, payload


async def assert_same(cuts: list[int], *, streamed: bool) -> None:
    """Hold a run with cuts against one without."""
    whole, _ = await run_with_cuts([], streamed=streamed)
    cut, _ = await run_with_cuts(cuts, streamed=streamed)
    assert cut[-1].raised is None
    assert what_counts(cut) == what_counts(whole)
    assert cut[-1].ctx.transcript == whole[-1].ctx.transcript
    before, after = whole[-1].events[-1].outcome, cut[-1].events[-1].outcome
    assert replace(after, duration_ms=0.0) == replace(before, duration_ms=0.0)
    indices = [event.index for each in cut for event in each.events]
    assert indices == list(range(len(indices)))


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "blocking"])
async def test_a_run_may_be_cut_at_any_point(*, streamed: bool) -> None:
    """Same transcript, outcome and events, wherever it is handed over (HK-3, HK-4, CXL-7, EVT-12)."""
    _, points = await run_with_cuts([], streamed=streamed)
    kinds = {"model asked", "tool called", "tool done", "turn opened", "round closed", "output extracted"}
    assert kinds | {f"stage in {phase.value}" for phase in REPEATABLE} <= set(points.passed)
    for place in range(len(points.passed)):
        await assert_same([place], streamed=streamed)


@settings(max_examples=40)
@given(st.lists(st.integers(0, 25), min_size=2, max_size=6), st.booleans())
def test_a_run_may_be_cut_again_and_again(cuts: list[int], streamed: bool) -> None:
    """Also while it is catching up (HK-4)."""
    asyncio.run(assert_same(cuts, streamed=streamed))


async def test_rejecting_is_kept_over_a_hand_over() -> None:
    """A decision that was taken is not asked for again (HK-3)."""
    points = Points()
    plan = job(points)
    first = await walk(plan, run_id="r")
    points.cut_at = len(points.passed) + 3
    second = await go_on(plan, first.record(), {"approval:pay": Reject("no")})
    assert isinstance(second.raised, InvocationPreempted)
    points.cut_at = None
    third = await go_on(plan, second.record())
    assert [each.id for each in third.ctx.interrupts] == ["which", "r.child:approval:c"]


async def test_what_was_open_stays_open_over_a_hand_over() -> None:
    """The question that nobody answered yet is not put again (HK-5, CXL-7)."""
    points = Points()
    plan = job(points)
    first = await walk(plan, run_id="r")
    second = await go_on(plan, first.record(), {"approval:pay": Approve()})
    points.cut_at = len(points.passed) + 3
    third = await go_on(plan, second.record(), {"r.child:approval:c": Approve()})
    assert isinstance(third.raised, InvocationPreempted)
    assert points.passed[-1] == "tool called"
    points.cut_at = None
    fourth = await go_on(plan, third.record())
    assert [each.id for each in fourth.ctx.interrupts] == ["which"]
