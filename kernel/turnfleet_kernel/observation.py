"""Making events and showing them: the run's order (EVT-2), and the sink that sees each before the consumer (EVT-5)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from turnfleet_kernel.context import RequestContext
from turnfleet_kernel.contracts.events import KernelEvent
from turnfleet_kernel.contracts.stages import StageTrace
from turnfleet_kernel.contracts.values import Delta, ModelTurn, ToolOutcome, ToolRequest
from turnfleet_kernel.emitter import Emitter
from turnfleet_kernel.rounds import OpenRound
from turnfleet_kernel.sinks import CallbackEventAdapter

__all__ = ["Emitter", "RunObservation"]


class RunObservation:
    """What of a run is shown, once each (EVT-12). One per invocation."""

    __slots__ = ("_adapter", "_ctx", "make")

    def __init__(self, ctx: RequestContext, adapter: CallbackEventAdapter | None) -> None:
        """Show a run's events to a sink, if there is one."""
        self._ctx = ctx
        self._adapter = adapter
        self.make = ctx.emitter.make

    @property
    def has_sink(self) -> bool:
        """Tell whether anybody but the consumer looks."""
        return self._adapter is not None

    # -- making

    def stage_events(self, traces: Iterable[StageTrace]) -> list[KernelEvent]:
        """Make one event of each trace (STG-1)."""
        return [self.make("stage", trace=trace) for trace in traces]

    def delta(self, delta: Delta) -> KernelEvent:
        """Make the event of a piece of a turn."""
        return self.make(f"{delta.kind}_delta", text=delta.text)

    def usage(self, turn: ModelTurn) -> list[KernelEvent]:
        """Make the usage event of the open round, unless it was made or there is nothing to tell."""
        if not turn.usage or self._round.usage_made:
            return []
        self._round.usage_made = True
        return [self.make("usage", usage=turn.usage, total=self._ctx.usage, round=self._round.number)]

    def tool_calls(self, requests: Iterable[ToolRequest]) -> list[KernelEvent]:
        """Make the events of the calls about to be made, those of before left out."""
        made = self._round.calls_made
        fresh = [request for request in requests if request.call_id not in made]
        made.update(str(request.call_id) for request in fresh)
        return [
            self.make("tool_call", call_id=request.call_id, name=request.name, arguments=request.arguments)
            for request in fresh
        ]

    def tool_result(self, outcome: ToolOutcome) -> list[KernelEvent]:
        """Make the event of an outcome, unless it was made."""
        made = self._round.results_made
        if outcome.call_id in made:
            return []
        made.add(outcome.call_id)
        return [self.make("tool_result", call_id=outcome.call_id, name=outcome.name, outcome=outcome)]

    @property
    def _round(self) -> OpenRound:
        return self._ctx.current_round

    # -- showing

    async def deliver(self, event: KernelEvent) -> None:
        """Show an event to the sink; whatever happens there, the event goes on to the consumer (EVT-5)."""
        if self._adapter is not None:
            await self._adapter.deliver(event)

    async def deliver_last(self, events: Sequence[KernelEvent]) -> None:
        """Show the last events to the sink within the grace (EVT-10)."""
        if self._adapter is not None and events:
            await self._adapter.deliver_last(events)
