"""Every way out of an invocation keeps the same promises."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from kernel.kit import ASK, Walk, indices, walk
from kernel.stuck import PHASES, BrokenSink, StuckModel, ask, explode, forever, preempt, steps, until_stuck

from turnfleet_kernel import (
    DeadlineExceeded,
    DelegationContext,
    InvocationKernel,
    InvocationPlan,
    InvocationPreempted,
    InvocationRunner,
    Phase,
    RequestContext,
    Stage,
    ToolRequest,
    approval_stage,
    current_call,
    delegate,
)
from turnfleet_kernel.structured import JsonResponse
from turnfleet_kernel.testing import RecordingSink, ToolBox, call, calls, make_plan


class BrokenPort(ToolBox):
    """A tool port that fails."""

    async def call(self, request: ToolRequest) -> Any:
        """Fail."""
        raise ConnectionError("port down")


class StuckResponse:
    """A response port that never finds the output."""

    structured = True

    async def extract(self, _: object) -> object:
        """Look for ever."""
        await forever()
        return None


def with_child(child: InvocationPlan, sink: RecordingSink) -> InvocationPlan:
    """Make a plan whose one tool runs a child agent."""
    tool = delegate(InvocationKernel(), DelegationContext(), "helper", child)
    return make_plan([call("helper", "c1", prompt="p"), "the end"], tools={"helper": tool}, sink=sink)


@dataclass(frozen=True)
class Way:
    """A way out: the plan that takes it, its terminal event and reason, and how it is left."""

    plan: Callable[[RecordingSink], InvocationPlan]
    kind: str | None
    reason: str
    raises: type[BaseException] | None = None
    leave: str | None = None


def stuck_in(phase: Phase) -> Callable[..., InvocationPlan]:
    """Make a plan that is stuck in a stage of this phase."""
    return lambda sink, **limits: steps(sink=sink, stages=[Stage("stuck", phase, forever)], **limits)


def busy(sink: RecordingSink) -> InvocationPlan:
    """Make a plan of two rounds with two stages in each phase, and two calls at once that both tell how they are."""

    async def work() -> None:
        this = current_call()
        assert this is not None
        await this.progress("half")

    stages = [Stage(f"{phase.value}-{place}", phase, lambda _: None) for phase in PHASES for place in range(2)]
    asked = calls(ToolRequest("a", "t", {}), ToolRequest("b", "t", {}))
    return steps(work, sink=sink, model=[asked, "the end"], stages=stages)


BUSY_EVENTS = 28
"""Two stage events in each of nine dispatches, and usage, calls, progress, results, text, usage and done."""

WAYS = {
    "completed": Way(lambda sink: steps(sink=sink), "done", "completed"),
    "completed-failing-sink": Way(lambda _: steps(sink=BrokenSink()), "done", "completed"),
    "completed-failing-port": Way(lambda sink: steps(sink=sink, tools=BrokenPort({})), "done", "completed"),
    "tool-limit": Way(lambda sink: steps(sink=sink, max_model_rounds=1), "done", "completed"),
    "paused-by-stage": Way(
        lambda sink: steps(sink=sink, stages=[approval_stage(lambda _: True)]), "approval", "paused"
    ),
    "paused-by-tool": Way(lambda sink: steps(ask, sink=sink), "question", "paused"),
    "paused-by-child": Way(lambda sink: with_child(steps(ask), sink), "question", "paused"),
    "preempted-in-tool": Way(lambda sink: steps(preempt, sink=sink), None, "preempted", InvocationPreempted),
    "preempted-in-model": Way(
        lambda sink: steps(sink=sink, model=[InvocationPreempted("drain")]), None, "preempted", InvocationPreempted
    ),
    "preempted-in-child": Way(lambda sink: with_child(steps(preempt), sink), None, "preempted", InvocationPreempted),
    "error-in-model": Way(
        lambda sink: steps(sink=sink, model=[ConnectionError("down")]), "error", "error", ConnectionError
    ),
    "error-of-the-model's-own-timeout": Way(
        lambda sink: steps(sink=sink, model=[TimeoutError("slow")], deadline_seconds=60), "error", "error", TimeoutError
    ),
    "error-in-extraction": Way(lambda sink: steps(sink=sink, response=JsonResponse({})), "error", "error", ValueError),
    "deadline-in-model": Way(
        lambda sink: steps(sink=sink, model=StuckModel(), deadline_seconds=0.02), "error", "deadline", DeadlineExceeded
    ),
    "deadline-in-extraction": Way(
        lambda sink: steps(sink=sink, response=StuckResponse(), deadline_seconds=0.02),
        "error",
        "deadline",
        DeadlineExceeded,
    ),
    "cancelled-in-extraction": Way(
        lambda sink: steps(sink=sink, response=StuckResponse()),
        "cancelled",
        "cancelled",
        asyncio.CancelledError,
        "cancel",
    ),
    "deadline-in-tool": Way(
        lambda sink: steps(forever, sink=sink, deadline_seconds=0.02), "error", "deadline", DeadlineExceeded
    ),
    "cancelled-in-model": Way(
        lambda sink: steps(sink=sink, model=StuckModel()), "cancelled", "cancelled", asyncio.CancelledError, "cancel"
    ),
    "cancelled-in-tool": Way(
        lambda sink: steps(forever, sink=sink), "cancelled", "cancelled", asyncio.CancelledError, "cancel"
    ),
    **{
        f"error-in-{phase.value}": Way(
            lambda sink, phase=phase: steps(sink=sink, stages=[Stage("s", phase, explode)]),  # type: ignore[misc]
            "error",
            "error",
            RuntimeError,
        )
        for phase in PHASES
    },
    **{
        f"deadline-in-{phase.value}": Way(
            lambda sink, phase=phase: stuck_in(phase)(sink, deadline_seconds=0.02),  # type: ignore[misc]
            "error",
            "deadline",
            DeadlineExceeded,
        )
        for phase in PHASES
    },
    **{
        f"cancelled-in-{phase.value}": Way(
            lambda sink, phase=phase: stuck_in(phase)(sink),  # type: ignore[misc]
            "cancelled",
            "cancelled",
            asyncio.CancelledError,
            "cancel",
        )
        for phase in PHASES
    },
    **{
        f"gone-at-event-{place}": Way(busy, "cancelled", "disconnected", None, f"close-{place}")
        for place in range(BUSY_EVENTS - 1)
    },
}


async def take(way: Way, plan: InvocationPlan, ctx: RequestContext, *, streamed: bool) -> Walk:
    """Walk an invocation and leave it as the way says."""
    if way.leave == "cancel":
        task = await until_stuck(walk(plan, context=ctx, streamed=streamed))
        task.cancel()
        seen: Walk = await task
        return seen
    if way.leave is not None:
        left = Walk(ctx, plan)
        events = InvocationRunner.events(InvocationKernel(), plan, ASK, stream_model=streamed, context=ctx)
        for _ in range(int(way.leave.removeprefix("close-")) + 1):
            left.events.append(await anext(events))
        await events.aclose()
        return left
    return await walk(plan, context=ctx, streamed=streamed)


async def a_while() -> None:
    """Be background work that takes a few turns of the loop."""
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "blocking"])
@pytest.mark.parametrize("name", WAYS)
async def test_every_way_out_keeps_its_promises(name: str, *, streamed: bool) -> None:
    """Terminal event, contiguous indices, report, sink; no owned work, task or generator (EVT-2, EVT-4, RCX-8, RCX-11).

    CXL-3, CXL-5, CXL-6, CXL-7 and HK-1 say what each way is. Tasks and generators: the gate after every test.
    """
    way, sink = WAYS[name], RecordingSink()
    plan = way.plan(sink)
    if isinstance(plan.bindings.event_sink, RecordingSink):
        sink = plan.bindings.event_sink
    ctx = RequestContext(plan)
    owned = ctx.spawn(a_while(), owner="test", purpose="work")
    seen = await take(way, plan, ctx, streamed=streamed)
    # What the consumer gets: the error or the cancellation itself, else silence.
    assert (type(seen.raised) if seen.raised else None) == way.raises
    # The sink saw every event of the consumer, first, and one terminal event, last.
    assert [event.index for event in sink.events] == list(range(len(sink.events)))
    assert sink.events[: len(seen.events)] == seen.events
    ends = [event.kind for event in sink.events if event.kind in {"done", "error", "cancelled", "approval", "question"}]
    assert ends == ([way.kind] if way.kind else [])
    if way.kind is not None:
        assert sink.events[-1].kind == way.kind
    # The consumer gets it too, unless it was cancelled or has left.
    if way.reason not in {"cancelled", "disconnected"}:
        assert seen.events == sink.events
    # The report.
    assert seen.report.reason == way.reason
    assert seen.ctx.cancelled == (way.reason in {"cancelled", "disconnected"})
    assert "sink" in seen.report.closed
    assert seen.report.overran == ()
    assert bool(seen.report.sink_failures) == (name == "completed-failing-sink")
    # What it owned has ended, and nobody had to cut it off.
    assert (owned.done(), owned.cancelled()) == (True, False)


@pytest.mark.parametrize("streamed", [True, False])
async def test_the_busy_plan_is_as_long_as_it_says(*, streamed: bool) -> None:
    """So that a consumer leaves it at every event there is, in every phase (CXL-5)."""
    seen = await walk(busy(RecordingSink()), streamed=streamed)
    phases = {event.trace.phase for event in seen.of("stage")}
    assert (len(seen.events), phases) == (BUSY_EVENTS + streamed, set(PHASES))


async def test_indices_have_no_hole_whatever_happens() -> None:
    """Also where stages fail softly and sinks break (EVT-2)."""
    stages = [Stage(f"s{number}", phase, explode, on_error="continue") for number, phase in enumerate(PHASES)]
    seen = await walk(steps(stages=stages, sink=BrokenSink()))
    assert indices(seen) == list(range(len(seen.events)))
    assert seen.kinds[-1] == "done"
