"""Making events and showing them: the run's order (EVT-2), and the sink that sees each before the consumer (EVT-5).

Events are made one at a time, as they are asked for: of those that nobody takes any more, none has an index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from turnfleet_kernel.calls import ChildHad, Progressed
from turnfleet_kernel.context import RequestContext
from turnfleet_kernel.contracts.events import EventKind, KernelEvent
from turnfleet_kernel.contracts.values import Delta, DeltaKind, ToolOutcome, ToolRequest
from turnfleet_kernel.emitter import Emitter
from turnfleet_kernel.rounds import OpenRound
from turnfleet_kernel.sinks import CallbackEventAdapter
from turnfleet_kernel.tools import RoundStep

__all__ = ["Emitter", "RunObservation"]

_DELTA_EVENTS: Final[Mapping[DeltaKind, EventKind]] = {
    "text": "text_delta",
    "reasoning": "reasoning_delta",
    "tool_call": "tool_call_delta",
}


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

    def stage_events(self) -> Iterator[KernelEvent]:
        """Make one event of each trace that is none yet (STG-1)."""
        traces = self._ctx.traces
        while traces:
            yield self.make("stage", trace=traces.popleft())

    def deltas(self, deltas: Iterable[Delta]) -> Iterator[KernelEvent]:
        """Make the events of pieces of a turn."""
        for delta in deltas:
            yield self.make(_DELTA_EVENTS[delta.kind], text=delta.text)

    def usage(self, turn_round: OpenRound) -> Iterator[KernelEvent]:
        """Make the usage event of an accepted turn, unless it was made or there is nothing to tell."""
        turn = turn_round.turn
        if turn is not None and turn.usage and not turn_round.usage_made:
            turn_round.usage_made = True
            yield self.make("usage", usage=turn.usage, total=self._ctx.usage, round=turn_round.number)

    def tool_calls(self, turn_round: OpenRound, requests: Iterable[ToolRequest]) -> Iterator[KernelEvent]:
        """Make the events of the calls about to be made, those of before left out."""
        made = turn_round.calls_made
        for request in requests:
            call_id = str(request.call_id)
            if call_id not in made:
                made.add(call_id)
                yield self.make("tool_call", call_id=call_id, name=request.name, arguments=request.arguments)

    def tool_steps(self, turn_round: OpenRound, steps: Iterable[RoundStep]) -> Iterator[KernelEvent]:
        """Make the events of what happened while tools ran; a result that was told before is not told again."""
        made = turn_round.results_made
        for step in steps:
            match step:
                case ToolOutcome(call_id=call_id):
                    if call_id not in made:
                        made.add(call_id)
                        yield self.make("tool_result", call_id=call_id, name=step.name, outcome=step)
                case Progressed(call_id, value):
                    yield self.make("progress", call_id=call_id, value=value)
                case ChildHad(identity, event):
                    payload = {"run_id": identity.run_id, "parent_run_id": identity.parent_run_id, "event": event}
                    yield self.make("child", **payload)

    # -- showing

    async def deliver(self, event: KernelEvent) -> None:
        """Show an event to the sink; whatever happens there, the event goes on to the consumer (EVT-5)."""
        if self._adapter is not None:
            await self._adapter.deliver(event)

    async def deliver_last(self, events: Sequence[KernelEvent]) -> None:
        """Show the last events to the sink within the grace (EVT-10)."""
        if self._adapter is not None and events:
            await self._adapter.deliver_last(events)
