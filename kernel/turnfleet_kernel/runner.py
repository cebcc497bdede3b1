"""The one loop (IPL-2).

``events`` surrounds it with what every way out owes: the last events, the sink, the teardown. ``_phases`` is the
loop itself, phase after phase: it yields what is to be shown next, as events not made yet. It names no provider,
message class, tool registry or feature flag.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator

from turnfleet_kernel.context import RequestContext
from turnfleet_kernel.contracts.events import KernelEvent
from turnfleet_kernel.contracts.stages import Phase
from turnfleet_kernel.contracts.values import Delta, TurnRequest
from turnfleet_kernel.endings import Completed, Ending, Failed, Preempted, Stopped, last_events, reason_of, what_ended
from turnfleet_kernel.exchange import ModelExchange
from turnfleet_kernel.observation import RunObservation
from turnfleet_kernel.palette import model_for
from turnfleet_kernel.phases import KernelPhases
from turnfleet_kernel.plan import InvocationPlan
from turnfleet_kernel.rungs import CapabilityRungs
from turnfleet_kernel.sinks import CallbackEventAdapter
from turnfleet_kernel.tools import run_tool_round

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
                    async for to_show in phases:
                        for event in to_show:
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
            last = last_events(ending, observation)
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
) -> AsyncGenerator[Iterator[KernelEvent], None]:
    bounded, conversation = ctx.lifecycle.bounded, plan.bindings.conversation
    rungs, staged = CapabilityRungs(plan, ctx, request), plan.stage_program.phases

    await kernel.open_turn_dispatched(plan, ctx, request, rungs=rungs)
    yield observation.stage_events()
    model = model_for(plan, ctx)

    while not (limit := kernel.limit_reached(plan, ctx)):
        turn_round = ctx.open_round()
        if Phase.PRE_MODEL in staged:
            await rungs.dispatch_pre_model(ctx.transcript)
            yield observation.stage_events()

        withheld: list[Delta] = []
        exchange = ModelExchange(ctx, model, ctx.transcript, stream=stream_model)
        try:
            while not exchange.over:
                deltas = await exchange.next()
                if plan.stage_program.withholds:
                    withheld.extend(deltas)
                elif deltas:
                    yield observation.deltas(deltas)
            turn = exchange.turn()
        finally:
            if exchange.open:
                await exchange.close()

        if Phase.POST_MODEL in staged:
            await rungs.dispatch_post_model(ctx.transcript, turn)
            yield observation.stage_events()
        if withheld:
            yield observation.deltas(withheld)
        requests = kernel.accept_turn(ctx, turn)
        yield observation.usage(turn_round)

        if not requests:
            conversation.close_round(ctx.transcript, turn, (), ())
            kernel.record_tools(ctx, ())
            break

        if Phase.PRE_TOOL in staged:
            requests = await rungs.dispatch_pre_tool(ctx.transcript, turn, requests)
            yield observation.stage_events()
        yield observation.tool_calls(turn_round, requests)
        tools = run_tool_round(plan, ctx, requests, streaming=stream_model)
        try:
            while not tools.over:
                yield observation.tool_steps(turn_round, await bounded(tools.next(), doing="running tools"))
            outcomes = tools.outcomes()
        finally:
            if not tools.over:
                await tools.close()
        ctx.lifecycle.check("running tools")
        conversation.close_round(ctx.transcript, turn, requests, outcomes)
        kernel.record_tools(ctx, outcomes)
        if Phase.POST_TOOL in staged:
            kernel.adopt_transcript(ctx, await rungs.dispatch_post_tool(ctx.transcript, turn, requests, outcomes))
            yield observation.stage_events()

    await kernel.finish(plan, ctx, ctx.transcript, limit=limit)
    if Phase.FINALIZE in staged:
        await rungs.dispatch_finalize(ctx.transcript)
        yield observation.stage_events()
