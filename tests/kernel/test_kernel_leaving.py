"""Every way out of an invocation, and what each owes."""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import pytest
from kernel.kit import ASK, Walk, indices, walk

from turnfleet_kernel import (
    DeadlineExceeded,
    DelegationContext,
    Delta,
    Interrupt,
    InvocationKernel,
    InvocationPaused,
    InvocationPlan,
    InvocationPreempted,
    InvocationRunner,
    KernelEvent,
    ModelTurn,
    Phase,
    RequestContext,
    Stage,
    StepCancelledError,
    ToolRequest,
    approval_stage,
    current_call,
    delegate,
)
from turnfleet_kernel.structured import JsonResponse
from turnfleet_kernel.testing import ManualClock, RecordingSink, ScriptedModel, ToolBox, call, calls, make_plan

PHASES = [phase for phase in Phase if phase is not Phase.BIND]


STUCK: ContextVar[asyncio.Event | None] = ContextVar("stuck", default=None)


async def forever(*_: object, **__: object) -> None:
    """Wait for what never comes; tell who wants to know when it got here."""
    got_here = STUCK.get()
    if got_here is not None:
        got_here.set()
    await asyncio.Event().wait()


async def until_stuck(work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Start work and return when it is stuck."""
    got_here = asyncio.Event()
    token = STUCK.set(got_here)
    task = asyncio.ensure_future(work)
    STUCK.reset(token)
    await got_here.wait()
    return task


def explode(*_: object, **__: object) -> None:
    """Fail."""
    raise RuntimeError("boom")


def preempt(*_: object, **__: object) -> None:
    """Hand the run over."""
    raise InvocationPreempted("drain")


def ask(*_: object, **__: object) -> None:
    """Wait for a person."""
    raise InvocationPaused(Interrupt("q", "question"))


def steps(tool: Callable[..., Any] = lambda: 1, **options: Any) -> InvocationPlan:
    """Make a plan of two rounds, one tool call in the first."""
    model = options.pop("model", [call("t", "c1"), "the end"])
    return make_plan(model, tools=options.pop("tools", {"t": tool}), **options)


class StuckModel:
    """A model that never answers."""

    async def invoke(self, transcript: object) -> Any:
        """Wait for what never comes."""
        await forever()

    def stream(self, transcript: object) -> Any:
        """Stream nothing, for ever."""
        return self

    async def deltas(self) -> Any:
        """Give no delta."""
        await forever()
        yield None

    def result(self) -> Any:
        """Be never asked."""
        raise AssertionError("there is no result")


class BrokenSink(RecordingSink):
    """A sink that keeps events and fails all the same."""

    async def deliver(self, event: KernelEvent) -> None:
        """Keep the event and fail."""
        await super().deliver(event)
        raise ConnectionError("sink down")


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


async def test_stopping_at_the_terminal_event_is_no_disconnection(kernel: InvocationKernel) -> None:
    """The reason was settled when it was made, and the sink gets no second one (EVT-4)."""
    sink = RecordingSink()
    plan = steps(sink=sink)
    ctx = RequestContext(plan)
    events = kernel.stream(plan, ASK, context=ctx)
    async for event in events:
        if event.kind == "done":
            break
    await events.aclose()
    assert (ctx.report and ctx.report.reason, ctx.cancelled) == ("completed", False)
    assert sink.kinds.count("done") == 1
    assert "cancelled" not in sink.kinds


async def test_leaving_between_two_deltas_closes_the_model_stream(kernel: InvocationKernel) -> None:
    """On every path; a slow sink still gets its terminal event, once (CXL-5)."""
    closed: list[bool] = []

    class Model(StuckModel):
        async def deltas(self) -> Any:
            try:
                yield Delta("text", "one")
                yield Delta("text", "two")
            finally:
                closed.append(True)

    class Slow(RecordingSink):
        async def deliver(self, event: KernelEvent) -> None:
            await asyncio.sleep(0.005)
            closed_before.append(bool(closed))
            await super().deliver(event)

    sink = Slow()
    closed_before: list[bool] = []
    events = kernel.stream(make_plan(Model(), sink=sink), ASK)
    await anext(events)
    await events.aclose()
    assert (closed, sink.kinds, sink.events[-1].reason) == ([True], ["text_delta", "cancelled"], "disconnected")
    assert closed_before == [False, True]


async def test_a_cancellation_is_never_swallowed(kernel: InvocationKernel) -> None:
    """It comes out of run() as it went in, and the reason is cancelled (CXL-3)."""
    plan = steps(forever)
    ctx = RequestContext(plan)
    task = await until_stuck(kernel.run(plan, ASK, context=ctx))
    task.cancel("by the user")
    with pytest.raises(asyncio.CancelledError, match="by the user"):
        await task
    assert task.cancelled()
    assert ctx.report is not None
    assert ctx.report.reason == "cancelled"


async def test_a_time_limit_of_the_consumer_is_a_cancellation(kernel: InvocationKernel) -> None:
    """Somebody else's clock is not the run's deadline (CXL-3, CXL-6)."""
    plan = steps(forever, deadline_seconds=60)
    ctx = RequestContext(plan)
    with pytest.raises(TimeoutError) as raised:
        async with asyncio.timeout(0.01):
            await kernel.run(plan, ASK, context=ctx)
    assert not isinstance(raised.value, DeadlineExceeded)
    assert ctx.report is not None
    assert ctx.report.reason == "cancelled"


async def test_running_tools_are_cancelled_and_awaited() -> None:
    """Within the grace, before the terminal event; who stays is reported (CXL-4)."""
    story: list[str] = []
    release = asyncio.Event()

    async def polite() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            story.append("cleaned up")

    async def stubborn() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                story.append("ignored")

    class Sink(RecordingSink):
        async def deliver(self, event: KernelEvent) -> None:
            story.append(event.kind)

    asked = calls(ToolRequest("p", "polite", {}), ToolRequest("s", "stubborn", {}))
    tools: dict[str, Any] = {"polite": polite, "stubborn": stubborn}
    plan = make_plan([asked], tools=tools, sink=Sink(), deadline_seconds=0.3, teardown_grace_seconds=0.1)
    seen = await walk(plan)
    assert story == ["usage", "tool_call", "tool_call", "ignored", "cleaned up", "error"]
    assert seen.report.overran == ("tool stubborn (s)",)
    # What was cut off has no outcome: whether it happened is in doubt (CXL-7).
    assert seen.ctx.round is not None
    assert seen.ctx.round.outcomes == {}
    release.set()
    await asyncio.sleep(0)


async def test_a_port_that_cancels_itself_does_not_cancel_its_consumer() -> None:
    """An error, told apart from a cancellation of the run (CXL-3)."""

    async def cancels_itself(_: object) -> None:
        task = asyncio.ensure_future(asyncio.sleep(60))
        task.cancel()
        await task

    seen = await walk(steps(stages=[Stage("s", Phase.PRE_MODEL, cancels_itself)]))
    assert isinstance(seen.raised, StepCancelledError)
    assert (seen.report.reason, seen.kinds[-1]) == ("error", "error")


@pytest.mark.parametrize("phase", [phase for phase in PHASES if phase is not Phase.PRE_TOOL])
async def test_only_tools_and_pre_tool_stages_may_pause(phase: Phase) -> None:
    """From any other phase it is a violation naming the stage (HK-2)."""
    seen = await walk(steps(stages=[Stage("pauser", phase, ask)]))
    assert (seen.kinds[-1], seen.report.reason) == ("error", "error")
    assert "'pauser'" in str(seen.raised)


async def test_a_model_may_not_pause() -> None:
    """Nor anything else that is no tool (HK-2)."""
    seen = await walk(steps(model=[InvocationPaused(Interrupt("q", "question"))]))
    assert (seen.kinds[-1], seen.report.reason) == ("error", "error")


async def test_a_hand_over_lets_siblings_end() -> None:
    """Their outcomes are recorded first, no further call starts (CXL-7, TOL-4)."""
    ran: list[str] = []
    handed_over = asyncio.Event()

    def first() -> None:
        handed_over.set()
        raise InvocationPreempted

    async def second() -> str:
        await handed_over.wait()
        await asyncio.sleep(0)
        ran.append("second")
        return "2"

    asked = calls(*(ToolRequest(name, name, {}) for name in ("first", "second", "third")))
    tools: dict[str, Any] = {"first": first, "second": second, "third": lambda: ran.append("third")}
    seen = await walk(make_plan([asked], tools=tools, max_parallel_tools=2))
    assert isinstance(seen.raised, InvocationPreempted)
    assert ran == ["second"]
    assert seen.ctx.round is not None
    assert {call_id: each.value for call_id, each in seen.ctx.round.outcomes.items()} == {"second": "2"}


# -- the deadline


async def test_the_error_says_what_the_run_was_doing() -> None:
    """And which run, and how much it had (CXL-6)."""
    seen = await walk(steps(forever, deadline_seconds=0.02), run_id="r9")
    assert str(seen.raised) == "run r9 spent its 0.02 seconds while running tools"


async def test_instant_steps_are_charged_too() -> None:
    """No timer fires between them: the clock is looked at before each (CXL-6, STG-4)."""
    clock = ManualClock()
    stage = Stage("slow", Phase.POST_MODEL, lambda _: clock.advance(6))
    seen = await walk(steps(stages=[stage], clock=clock, deadline_seconds=10))
    assert (seen.report.reason, seen.kinds.count("usage")) == ("deadline", 2)


async def test_the_time_of_the_consumer_is_charged(kernel: InvocationKernel) -> None:
    """A slow consumer spends the run's budget (EVT-8, CXL-6)."""
    clock = ManualClock()

    async def dawdle() -> None:
        async for event in kernel.stream(steps(clock=clock, deadline_seconds=10), ASK):
            if event.kind == "tool_call":
                clock.advance(11)

    with pytest.raises(DeadlineExceeded):
        await dawdle()


async def test_a_deadline_that_a_port_raises_is_not_that_of_the_run() -> None:
    """Told apart by identity, not by type (CXL-6)."""
    seen = await walk(steps(model=[DeadlineExceeded("of another run")], deadline_seconds=60))
    assert (seen.report.reason, type(seen.raised)) == ("error", DeadlineExceeded)


async def test_a_step_that_outruns_its_cancellation_still_ends_the_run() -> None:
    """A tool port or stage may swallow the cancellation; the next step raises (CXL-6)."""

    async def swallows(_: object) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return

    seen = await walk(steps(stages=[Stage("s", Phase.PRE_MODEL, swallows)], deadline_seconds=0.02))
    task = asyncio.current_task()
    assert (seen.report.reason, task and task.cancelling()) == ("deadline", 0)


async def test_an_abandoned_stream_is_closed_when_it_is_forgotten(kernel: InvocationKernel) -> None:
    """Breaking out of the loop without closing is leaving, too (CXL-5)."""
    closed = asyncio.Event()

    class Sink(RecordingSink):
        async def close(self) -> None:
            closed.set()

    sink = Sink()
    async for _ in kernel.stream(steps(sink=sink, model=ScriptedModel(["a b c"])), ASK):
        break
    await closed.wait()
    assert sink.kinds == ["text_delta", "cancelled"]


async def test_indices_have_no_hole_whatever_happens() -> None:
    """Also where stages fail softly and sinks break (EVT-2)."""
    stages = [Stage(f"s{number}", phase, explode, on_error="continue") for number, phase in enumerate(PHASES)]
    seen = await walk(steps(stages=stages, sink=BrokenSink()))
    assert indices(seen) == list(range(len(seen.events)))
    assert seen.kinds[-1] == "done"


async def test_leaving_while_a_tool_reports_ends_the_tool(kernel: InvocationKernel) -> None:
    """The consumer is gone at a progress event: the tool has ended before the terminal event (CXL-4, CXL-5)."""
    story: list[str] = []

    class Telling(RecordingSink):
        async def deliver(self, event: KernelEvent) -> None:
            story.append(event.kind)

    async def work() -> None:
        this = current_call()
        assert this is not None
        try:
            await this.progress("half")
            await asyncio.Event().wait()
        finally:
            story.append("ended")

    events = kernel.stream(steps(work, sink=Telling()), ASK)
    async for event in events:
        if event.kind == "progress":
            break
    await events.aclose()
    assert story[-3:] == ["progress", "ended", "cancelled"]


class Pieces(StuckModel):
    """A model whose stream is no generator: it is closed by the runner or not at all."""

    def __init__(self, then: Callable[[], Any] | None) -> None:
        self._then = then
        self._given = False
        self.closed = 0

    def deltas(self) -> "Pieces":
        """Be the stream."""
        return self

    def __aiter__(self) -> "Pieces":
        return self

    async def __anext__(self) -> Delta:
        if not self._given:
            self._given = True
            return Delta("text", "one")
        if self._then is not None:
            await self._then()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Count."""
        self.closed += 1

    def result(self) -> ModelTurn:
        """Give the turn."""
        return ModelTurn("one")


async def fail_later() -> None:
    """Fail."""
    raise ConnectionError("cut")


@pytest.mark.parametrize(
    ("then", "deadline", "kind"), [(None, None, "done"), (fail_later, None, "error"), (forever, 0.05, "error")]
)
async def test_the_stream_of_a_model_is_closed_on_every_path(then: Any, deadline: float | None, kind: str) -> None:
    """Exhausted, failed, or cut off by the deadline: by the runner, not by chance when it is forgotten (RCX-11)."""
    model = Pieces(then)
    seen = await walk(steps(model=model, deadline_seconds=deadline))
    assert (seen.kinds[-1], model.closed) == (kind, 1)


async def test_a_stream_that_is_left_is_closed(kernel: InvocationKernel) -> None:
    """The same when the consumer goes (CXL-5)."""
    model = Pieces(None)
    events = kernel.stream(steps(model=model), ASK)
    await anext(events)
    await events.aclose()
    assert model.closed == 1
