"""A child agent, called as a tool (DEL-1, DEL-6)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from turnfleet_kernel.calls import ToolCall, current_call
from turnfleet_kernel.context import RequestContext
from turnfleet_kernel.contracts.interrupts import InvocationPaused, InvocationPreempted
from turnfleet_kernel.contracts.record import PauseRecord
from turnfleet_kernel.contracts.values import InvocationOutcome, PausedOutcome, RunIdentity, TurnRequest
from turnfleet_kernel.delegation import DelegationContext
from turnfleet_kernel.errors import DelegationDepthError
from turnfleet_kernel.identity import Ambient, current_ambient
from turnfleet_kernel.invoker import InvocationKernel
from turnfleet_kernel.pausing import record_pause
from turnfleet_kernel.plan import InvocationPlan
from turnfleet_kernel.projections import ResultCollector
from turnfleet_kernel.resuming import child_interrupt_id, resume
from turnfleet_kernel.runner import InvocationRunner

__all__ = ["delegate"]


def delegate(
    kernel: InvocationKernel, delegation: DelegationContext, name: str, plan: InvocationPlan
) -> Callable[[str], Awaitable[Any]]:
    """Make a tool function that runs a child agent on a prompt and gives its output.

    The child's run has its own context and identity, one deeper than the run that calls it; what it uses is charged
    to the call. Its events reach the root as ``child`` events. Its pause pauses the caller; when that goes on, the
    child goes on where it stopped.

    Raises (from the function):
        DelegationDepthError: the child would be deeper than the root plan's ``max_depth``.
        Exception: what the child's run raised; the model is told, as of any tool.
        InvocationPaused: the child paused.
    """

    async def run_child(prompt: str) -> Any:
        call, around = current_call(), current_ambient()
        identity = _identify(plan, delegation, call, around)
        if around is not None and identity.depth > around.max_depth:
            msg = f"run {around.identity.run_id} cannot delegate to {name!r}: max_depth is {around.max_depth}"
            raise DelegationDepthError(msg)
        child_plan, request, ctx = _begin(plan, TurnRequest(prompt, run_id=identity.run_id), identity, call)
        try:
            async with delegation.run_scope(depth=identity.depth, identity=identity):
                result = await _consume(kernel, child_plan, request, ctx, call)
        except InvocationPreempted:
            if call is not None:
                call.child_stopped(lambda: record_pause(child_plan, ctx))
            raise
        except Exception:
            _charge(call, ctx)
            raise
        if isinstance(result, PausedOutcome):
            _wait(result, call, lambda: record_pause(child_plan, ctx))
        _charge(call, ctx)
        delegation.record_delegation(name)
        return result.output if isinstance(result, InvocationOutcome) else None

    run_child.__name__ = name
    run_child.__doc__ = f"Hand a task to the agent {name}."
    return run_child


def _identify(
    plan: InvocationPlan, delegation: DelegationContext, call: ToolCall | None, around: Ambient | None
) -> RunIdentity:
    """Name the child: its id follows from the call, so that it is the same whenever the call is made again."""
    if around is None:
        return replace(RunIdentity.root(plan.bindings.ids.new()), depth=delegation.current_depth() + 1)
    if call is None:
        return around.identity.child(plan.bindings.ids.new())
    return around.identity.child(f"{around.identity.run_id}.{call.call_id}")


def _begin(
    plan: InvocationPlan, request: TurnRequest, identity: RunIdentity, call: ToolCall | None
) -> tuple[InvocationPlan, TurnRequest, RequestContext]:
    if call is None or call.child is None:
        return plan, request, RequestContext(plan, identity=identity)
    mine = {
        interrupt.id: decision
        for interrupt in call.child.interrupts
        if (decision := call.decisions.get(child_interrupt_id(identity.run_id, interrupt.id))) is not None
    }
    return resume(plan, call.child, request, mine, identity=identity)


async def _consume(
    kernel: InvocationKernel,
    plan: InvocationPlan,
    request: TurnRequest,
    ctx: RequestContext,
    call: ToolCall | None,
) -> InvocationOutcome[Any] | PausedOutcome:
    collector = ResultCollector.attach(plan)
    stream_model = call is not None and call.streaming
    events = InvocationRunner.events(kernel, plan, request, stream_model=stream_model, context=ctx)
    async with aclosing(events):
        async for event in events:
            collector.accept(event)
            if call is not None:
                await call.child_had(ctx.identity, event)
    return collector.result()


def _wait(paused: PausedOutcome, call: ToolCall | None, record: Callable[[], PauseRecord]) -> None:
    if call is not None:
        call.child_stopped(record)
    raise InvocationPaused(
        *(replace(interrupt, id=child_interrupt_id(paused.run_id, interrupt.id)) for interrupt in paused.interrupts)
    )


def _charge(call: ToolCall | None, ctx: RequestContext) -> None:
    if call is not None:
        call.charge(ctx.usage)
