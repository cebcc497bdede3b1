"""The sink side of a run: each event to the plan's sink, whatever the sink does (EVT-5, EVT-9, EVT-10)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from turnfleet_kernel.context import RequestContext
from turnfleet_kernel.contracts.events import KernelEvent
from turnfleet_kernel.contracts.frozen import FrozenDict
from turnfleet_kernel.errors import DeadlineExceeded
from turnfleet_kernel.plan import InvocationPlan
from turnfleet_kernel.ports import EventSink
from turnfleet_kernel.teardown import describe

__all__ = ["CallbackEventAdapter"]

_NOTED = 20
"""So many failures of one run's sink are written down, the rest only counted."""


class CallbackEventAdapter:
    """Delivers one run's events; failures are noted and break nothing. Attached per invocation."""

    __slots__ = ("_ctx", "_failures", "_sink")

    def __init__(self, ctx: RequestContext, sink: EventSink) -> None:
        """Deliver a run's events to this sink."""
        self._ctx = ctx
        self._sink = sink
        self._failures = 0

    @classmethod
    def attach(
        cls, plan: InvocationPlan, ctx: RequestContext, metadata: Mapping[str, Any] | None = None
    ) -> CallbackEventAdapter | None:
        """Bind the plan's sink to the run, if it has one and it can be bound (EVT-9); None without a sink.

        A sink that was bound for this run is closed at its teardown; one that all runs share is not.
        """
        sink = plan.bindings.event_sink
        if sink is None:
            return None
        # Asked as `close` is below: a check against the Protocol takes longer than all the rest of attaching.
        bind: Callable[..., EventSink] | None = getattr(sink, "bind", None)
        if callable(bind):
            try:
                sink = bind(ctx.identity, FrozenDict() if metadata is None else metadata)
            except Exception as error:  # noqa: BLE001 - a sink breaks no run (EVT-5)
                ctx.lifecycle.notes.sink_failures.append(describe("sink: bind", error))
                return None
            close: Callable[[], Awaitable[object] | None] | None = getattr(sink, "close", None)
            if callable(close):
                ctx.lifecycle.defer("sink", close)
        return cls(ctx, sink)

    async def deliver(self, event: KernelEvent) -> None:
        """Deliver within the run's deadline; an event that was made is delivered although the deadline has passed."""
        lifecycle = self._ctx.lifecycle
        if lifecycle.spent:
            await lifecycle.deliver_terminal(self._deliver_all([event]))
            return
        try:
            await lifecycle.bounded(self._sink.deliver(event), doing="delivering an event to the sink")
        except DeadlineExceeded as error:
            self._note(event, error)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - a sink breaks no run (EVT-5)
            self._note(event, error)

    async def deliver_last(self, events: Sequence[KernelEvent]) -> None:
        """Deliver the run's last events within the grace (EVT-10)."""
        await self._ctx.lifecycle.deliver_terminal(self._deliver_all(events))

    async def _deliver_all(self, events: Sequence[KernelEvent]) -> None:
        for event in events:
            try:
                await self._sink.deliver(event)
            except Exception as error:  # noqa: BLE001 - a sink breaks no run (EVT-5)
                self._note(event, error)

    def _note(self, event: KernelEvent, error: BaseException) -> None:
        self._failures += 1
        notes = self._ctx.lifecycle.notes.sink_failures
        if self._failures <= _NOTED:
            notes.append(describe(f"sink: {event.kind} {event.index}", error))
        elif self._failures == _NOTED + 1:
            notes.append("sink: further failures are not listed")
