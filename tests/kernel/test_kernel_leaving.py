"""What is owed when a consumer goes, a run is cancelled, pauses or is handed over."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio
import pytest
from kernel.kit import ASK, walk
from kernel.stuck import PHASES, StuckModel, ask, explode, forever, steps, until_stuck

from turnfleet_kernel import (
    Delta,
    Interrupt,
    InvocationKernel,
    InvocationPaused,
    InvocationPreempted,
    KernelEvent,
    ModelTurn,
    Phase,
    RequestContext,
    Stage,
    StepCancelledError,
    ToolRequest,
    current_call,
)
from turnfleet_kernel.testing import RecordingSink, ScriptedModel, call, calls, make_plan


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


class Swallowing:
    """What is stuck until it is cancelled, and then goes on as if it were not: as a library beneath a port may."""

    async def __call__(self, *_: object) -> None:
        """Be a stage's handler."""
        with suppress(asyncio.CancelledError):
            await forever()


class SwallowingModel(ScriptedModel):
    """A model whose first call swallows."""

    async def invoke(self, transcript: Any) -> ModelTurn:
        """Give the turn late."""
        if not self.calls:
            await Swallowing()()
        return await super().invoke(transcript)


class SwallowingSink(RecordingSink):
    """A sink whose first delivery swallows."""

    async def deliver(self, event: KernelEvent) -> None:
        """Take the event late."""
        if not self.events:
            await Swallowing()()
        await super().deliver(event)


SWALLOWING: dict[str, Callable[[], dict[str, Any]]] = {
    "stage": lambda: {"stages": [Stage("s", Phase.PRE_MODEL, Swallowing())]},
    "model": lambda: {"model": SwallowingModel([call("t", "c1"), "the end"])},
    "sink": lambda: {"sink": SwallowingSink()},
}


@pytest.mark.parametrize("where", SWALLOWING)
async def test_a_cancellation_that_a_port_swallows_ends_the_run_all_the_same(
    kernel: InvocationKernel, where: str
) -> None:
    """The caller cancels once, and nobody may take that from it (CXL-3): no call of a tool begins after it."""
    began: list[str] = []
    plan = steps(lambda: began.append("tool"), **SWALLOWING[where]())
    ctx = RequestContext(plan)
    task = await until_stuck(kernel.run(plan, ASK, context=ctx))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ctx.report is not None
    assert (ctx.report.reason, began) == ("cancelled", [])


async def test_a_port_that_ends_its_own_waiting_does_not_end_the_run(kernel: InvocationKernel) -> None:
    """Its time limits and groups cancel it, too, and take their requests back."""

    async def limited(_: object) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        with anyio.move_on_after(0):
            await asyncio.Event().wait()
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 0.001)
        with suppress(BaseExceptionGroup):
            async with asyncio.TaskGroup() as group:
                group.create_task(asyncio.to_thread(explode))
                await asyncio.Event().wait()

    plan = steps(stages=[Stage("s", Phase.PRE_MODEL, limited)])
    ctx = RequestContext(plan)
    await kernel.run(plan, ASK, context=ctx)
    assert ctx.report is not None
    assert ctx.report.reason == "completed"


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
    plan = make_plan([asked], tools=tools, sink=Sink(), deadline_seconds=1, teardown_grace_seconds=0.5)
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
    ("then", "deadline", "kind"), [(None, None, "done"), (fail_later, None, "error"), (forever, 1, "error")]
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
