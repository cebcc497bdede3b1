"""The one loop (IPL-2).

``events`` surrounds it with what every way out owes: the last events, the sink, the teardown. ``_phases`` is the
loop itself, phase after phase. It names no provider, message class, tool registry or feature flag.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from turnfleet_kernel.calls import ChildHad, Progressed
from turnfleet_kernel.context import RequestContext
from turnfleet_kernel.contracts.events import KernelEvent
from turnfleet_kernel.contracts.stages import Phase
from turnfleet_kernel.contracts.values import Delta, ToolOutcome, TurnRequest
from turnfleet_kernel.endings import Completed, Ending, Failed, Preempted, Stopped, last_events, reason_of, what_ended
from turnfleet_kernel.exchange import ModelExchange
from turnfleet_kernel.observation import RunObservation
from turnfleet_kernel.palette import model_for
from turnfleet_kernel.phases import KernelPhases
from turnfleet_kernel.plan import InvocationPlan
from turnfleet_kernel.rungs import CapabilityRungs
from turnfleet_kernel.sinks import CallbackEventAdapter
from turnfleet_kernel.tools import RoundStep, run_tool_round

__all__ = ["InvocationRunner"]


class InvocationRunner:
    """Runs invocations; holds nothing."""

    @staticmethod
    async def events(
        kernel: KernelPhases,
        plan: InvocationPlan,
        request: TurnRequest,
        *,
        stream_model: bool,
        context: RequestContext | None = None,
    ) -> AsyncGenerator[KernelEvent, None]:
        """Run one invocation and yield its events, the last of which ends it (EVT-4).

        ``stream_model`` is all that the loop is told about consumption: whether to ask the model port for deltas.

        Raises:
            ContractViolationError: the context has served an invocation before (RCX-3), or another plan.
            Exception: what the run raised, after its ``error`` event (EVT-7).
            InvocationPreempted: the run was handed over; no event says so (CXL-7).
        """
        ctx = context if context is not None else RequestContext(plan, run_id=request.run_id)
        kernel.bind(plan, ctx)
        observation = RunObservation(ctx, CallbackEventAdapter.attach(plan, ctx, request.metadata))
        shown = observation.has_sink
        phases = _phases(kernel, plan, ctx, request, observation, stream_model=stream_model)
        ending: Ending | None = None
        try:
            try:
                try:
                    async for event in phases:
                        if shown:
                            await observation.deliver(event)
                        yield event
                finally:
                    await phases.aclose()
                ending = Completed(kernel.conclude(ctx))
            except BaseException as left:  # noqa: BLE001 - every way out is told apart and owes the same things
                ending = what_ended(left, ctx)
            ctx.cancelled = isinstance(ending, Stopped)
            ctx.lifecycle.settle(reason_of(ending))
            last = last_events(ending, ctx, observation)
            if shown:
                await observation.deliver_last(last)
            if not isinstance(ending, Stopped):
                for event in last:
                    yield event
            if isinstance(ending, Failed | Stopped | Preempted):
                raise ending.error
        finally:
            # An exception holds its frames, and this frame the exception: let neither keep the run alive.
            reason = "error" if ending is None else reason_of(ending)
            del ending, phases
            await ctx.teardown(reason)


async def _phases(  # noqa: C901, PLR0912, PLR0915 - the loop is one place, read from top to bottom
    kernel: KernelPhases,
    plan: InvocationPlan,
    ctx: RequestContext,
    request: TurnRequest,
    observation: RunObservation,
    *,
    stream_model: bool,
) -> AsyncGenerator[KernelEvent, None]:
    bounded, conversation = ctx.lifecycle.bounded, plan.bindings.conversation
    rungs = CapabilityRungs(plan, ctx, request)

    ctx.transcript, traces = await kernel.open_turn_dispatched(plan, ctx, request, rungs=rungs)
    for event in observation.stage_events(traces):
        yield event
    model = model_for(plan, ctx)

    while not (limit := kernel.limit_reached(plan, ctx)):
        ctx.open_round()
        if rungs.has(Phase.PRE_MODEL):
            await rungs.dispatch_pre_model(ctx.transcript)
            for event in observation.stage_events(ctx.take_traces()):
                yield event

        withheld: list[Delta] = []
        exchange = ModelExchange(ctx, model, ctx.transcript, stream=stream_model)
        try:
            while (delta := await exchange.next()) is not None:
                if plan.stage_program.withholds:
                    withheld.append(delta)
                else:
                    yield observation.delta(delta)
            turn = exchange.turn()
        finally:
            await exchange.close()

        if rungs.has(Phase.POST_MODEL):
            await rungs.dispatch_post_model(ctx.transcript, turn)
            for event in observation.stage_events(ctx.take_traces()):
                yield event
        for delta in withheld:
            yield observation.delta(delta)
        requests = kernel.accept_turn(ctx, turn)
        for event in observation.usage(turn):
            yield event

        if not requests:
            conversation.close_round(ctx.transcript, turn, (), ())
            kernel.record_tools(ctx, ())
            break

        if rungs.has(Phase.PRE_TOOL):
            requests = await rungs.dispatch_pre_tool(ctx.transcript, turn, requests)
            for event in observation.stage_events(ctx.take_traces()):
                yield event
        for event in observation.tool_calls(requests):
            yield event
        tools = run_tool_round(plan, ctx, requests, streaming=stream_model)
        try:
            while (step := await bounded(tools.next(), doing="running tools")) is not None:
                for event in _of_tools(step, observation):
                    yield event
            outcomes = tools.outcomes()
        finally:
            await tools.close()
        conversation.close_round(ctx.transcript, turn, requests, outcomes)
        kernel.record_tools(ctx, outcomes)
        if rungs.has(Phase.POST_TOOL):
            ctx.transcript = await rungs.dispatch_post_tool(ctx.transcript, turn, requests, outcomes)
            for event in observation.stage_events(ctx.take_traces()):
                yield event

    await kernel.finish(plan, ctx, ctx.transcript, limit=limit)
    if rungs.has(Phase.FINALIZE):
        await rungs.dispatch_finalize(ctx.transcript)
        for event in observation.stage_events(ctx.take_traces()):
            yield event


def _of_tools(step: RoundStep, observation: RunObservation) -> list[KernelEvent]:
    match step:
        case ToolOutcome():
            return observation.tool_result(step)
        case Progressed(call_id, value):
            return [observation.make("progress", call_id=call_id, value=value)]
        case ChildHad(identity, event):
            payload = {"run_id": identity.run_id, "parent_run_id": identity.parent_run_id, "event": event}
            return [observation.make("child", **payload)]
