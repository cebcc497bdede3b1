"""The kernel: the phases as operations, and the four ways to consume an invocation (STG-9). Stateless."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from turnfleet_kernel.context import RequestContext
from turnfleet_kernel.contracts.events import KernelEvent
from turnfleet_kernel.contracts.values import (
    InvocationOutcome,
    PausedOutcome,
    TurnRequest,
)
from turnfleet_kernel.phases import KernelPhases
from turnfleet_kernel.plan import InvocationPlan
from turnfleet_kernel.projections import ResultCollector, TextStreamAdapter, TypedStreamAdapter
from turnfleet_kernel.runner import InvocationRunner

__all__ = ["InvocationKernel"]


class InvocationKernel(KernelPhases):
    """Runs plans. One object serves any number of invocations at once; it remembers none of them (RCX-10)."""

    __slots__ = ()

    async def run(
        self, plan: InvocationPlan, request: TurnRequest, *, context: RequestContext | None = None
    ) -> InvocationOutcome[Any] | PausedOutcome:
        """Run to the end, or to a pause. Raises what the run raised."""
        collector = ResultCollector.attach(plan)
        events = InvocationRunner.events(self, plan, request, stream_model=False, context=context)
        try:
            async for event in events:
                last = event
        finally:
            await events.aclose()
        collector.accept(last)
        return collector.result()

    def stream(
        self, plan: InvocationPlan, request: TurnRequest, *, context: RequestContext | None = None
    ) -> AsyncGenerator[KernelEvent, None]:
        """Run and yield every event, deltas as the model produces them."""
        return InvocationRunner.events(self, plan, request, stream_model=True, context=context)

    async def stream_text(
        self, plan: InvocationPlan, request: TurnRequest, *, context: RequestContext | None = None
    ) -> AsyncGenerator[str, None]:
        """Run and yield the answer's text, piece by piece. Ends at a pause; raises what the run raised."""
        adapter = TextStreamAdapter.attach(plan)
        events = InvocationRunner.events(self, plan, request, stream_model=True, context=context)
        async with aclosing(events):
            async for event in events:
                text = adapter.text(event)
                if text is not None:
                    yield text

    async def stream_typed(
        self, plan: InvocationPlan, request: TurnRequest, *, context: RequestContext | None = None
    ) -> AsyncGenerator[KernelEvent, None]:
        """Run and yield every event, held to the order that EVT-2 and EVT-4 promise."""
        adapter = TypedStreamAdapter.attach(plan)
        events = InvocationRunner.events(self, plan, request, stream_model=True, context=context)
        async with aclosing(events):
            async for event in events:
                yield adapter.accept(event)
