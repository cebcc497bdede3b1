"""One round of tool calls, run at once (TOL)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from turnfleet_kernel.calls import Told, ToolCall, charged
from turnfleet_kernel.context import RequestContext
from turnfleet_kernel.contracts.interrupts import Decision, InvocationPaused, InvocationPreempted
from turnfleet_kernel.contracts.schema import schema_problem
from turnfleet_kernel.contracts.values import ToolOutcome, ToolRequest
from turnfleet_kernel.identity import Ambient, enter
from turnfleet_kernel.plan import InvocationPlan

__all__ = ["RoundStep", "ToolRound", "run_tool_round"]

RoundStep: TypeAlias = Told | ToolOutcome
"""What the loop hears while a round runs: something a tool tells, or that the next call in order is over."""


def run_tool_round(
    plan: InvocationPlan, ctx: RequestContext, requests: tuple[ToolRequest, ...], *, streaming: bool = False
) -> ToolRound:
    """Begin a round: ask ``next()`` until it gives None, then ``outcomes()``; ``close()`` on every path.

    The requests carry reserved call ids; outcomes known already are in the open round and come back through the
    tool port like all others (HK-4).
    """
    return ToolRound(plan, ctx, requests, streaming=streaming)


class ToolRound:
    """The calls of one round, each in a task of its own, so that a run that ends can end them (CXL-4)."""

    __slots__ = (
        "_child_records",
        "_closing",
        "_ctx",
        "_decisions",
        "_fatal",
        "_limit",
        "_outcomes",
        "_paused",
        "_port",
        "_preempted",
        "_requests",
        "_running",
        "_settled",
        "_started",
        "_steps",
        "_stopped_children",
        "_streaming",
        "_told",
        "_waiter",
    )

    def __init__(
        self, plan: InvocationPlan, ctx: RequestContext, requests: tuple[ToolRequest, ...], *, streaming: bool
    ) -> None:
        """Prepare; calls start with the first next()."""
        turn_round = ctx.current_round
        self._ctx = ctx
        self._port = plan.bindings.tools
        self._limit = plan.limits.max_parallel_tools
        self._requests = requests
        self._streaming = streaming
        self._outcomes = turn_round.outcomes
        self._child_records = turn_round.children
        self._stopped_children = turn_round.stopped_children
        self._paused = turn_round.paused
        self._decisions: Mapping[str, Decision] | None = ctx.resolved_input("decisions")
        self._running: dict[asyncio.Task[None], str] = {}
        self._started = 0
        self._settled: set[str] = set()
        self._steps: deque[ToolOutcome] = deque(maxlen=len(requests))
        self._told: deque[tuple[Told, asyncio.Future[None]]] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._preempted: InvocationPreempted | None = None
        self._fatal: BaseException | None = None
        self._closing = False

    async def next(self) -> RoundStep | None:
        """Wait for the next step; None when no call runs and none will start.

        Results come in request order, each as soon as all before it are over; after a pause, those that are known.
        """
        while True:
            if self._told:
                told, taken = self._told.popleft()
                if not taken.done():
                    taken.set_result(None)
                return told
            if self._steps:
                return self._steps.popleft()
            self._start_what_may()
            if not self._running:
                return None
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter

    def outcomes(self) -> tuple[ToolOutcome, ...]:
        """Give all outcomes in request order (TOL-1).

        Raises:
            InvocationPreempted: a call handed the run over; its siblings have ended (CXL-7).
            InvocationPaused: calls wait for people; all interrupts, in request order (TOL-4).
        """
        if self._fatal is not None:
            raise self._fatal
        if self._preempted is not None:
            raise self._preempted
        if self._paused:
            interrupts = [
                replace(interrupt, call_id=request.call_id)
                for request in self._requests
                if (pause := self._paused.get(str(request.call_id))) is not None
                for interrupt in pause.interrupts
            ]
            raise InvocationPaused(*interrupts)
        return tuple(self._outcomes[str(request.call_id)] for request in self._requests)

    async def close(self) -> None:
        """End what still runs: cancelled, and awaited within the grace (CXL-4)."""
        self._closing = True
        if self._running:
            await self._ctx.lifecycle.end_tasks(self._running)

    # -- inside

    @property
    def _stopping(self) -> bool:
        return bool(self._paused) or self._preempted is not None or self._fatal is not None

    def _start_what_may(self) -> None:
        loop = asyncio.get_running_loop()
        while self._started < len(self._requests) and len(self._running) < self._limit and not self._stopping:
            request = self._requests[self._started]
            self._started += 1
            task = loop.create_task(self._call(request))
            self._running[task] = f"tool {request.name} ({request.call_id})"

    async def _call(self, request: ToolRequest) -> None:
        call_id = str(request.call_id)
        call = ToolCall(
            call_id,
            request.name,
            self._tell,
            partial(self._stopped_children.__setitem__, call_id),
            above=self._ctx.above,
            child=self._child_records.get(call_id),
            decisions=self._decisions,
            streaming=self._streaming,
        )
        # The task has a context of its own: nothing to restore.
        enter(Ambient(self._ctx.identity, self._ctx.max_depth, call))
        clock = self._ctx.plan.bindings.clock
        began = clock.monotonic()
        error: str | None = None
        try:
            problem = schema_problem(self._port.schema(request.name), request.arguments)
            if problem is None:
                self._settle(charged(_fitting(await self._port.call(request), request)))
                return
            error = f"the arguments do not fit the schema of {request.name!r}: {problem}"
        except asyncio.CancelledError:
            if self._closing:
                raise
            error = "CancelledError: the tool cancelled itself"
        except Exception as failure:  # noqa: BLE001 - the model is told and the run goes on (TOL-2)
            error = f"{type(failure).__name__}: {failure}"
        except InvocationPaused as pause:
            self._paused[call_id] = pause
        except InvocationPreempted as handover:
            self._preempted = handover
        except BaseException as fatal:  # noqa: BLE001 - raised again where the round is waited for
            self._fatal = fatal
        if error is None:
            self._settle(None)
        else:
            duration_ms = (clock.monotonic() - began) * 1000
            self._settle(charged(ToolOutcome(call_id, request.name, error=error, duration_ms=duration_ms)))

    def _settle(self, outcome: ToolOutcome | None) -> None:
        """Record that a call is over (without outcome: it waits), and wake the loop."""
        if outcome is not None:
            self._outcomes[outcome.call_id] = outcome
            self._settled.add(outcome.call_id)
        task = asyncio.current_task()
        if task is not None:
            self._running.pop(task, None)
        self._queue_results(complete=self._stopping and not self._running)
        self._wake()

    def _queue_results(self, *, complete: bool) -> None:
        """Queue the results whose turn it is: up to the first gap, or all that are known once nothing runs."""
        for request in self._requests:
            call_id = str(request.call_id)
            if call_id in self._settled:
                self._settled.discard(call_id)
                self._steps.append(self._outcomes[call_id])
            elif call_id not in self._outcomes and not complete:
                return

    async def _tell(self, told: Told) -> None:
        if self._closing:
            return
        taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._told.append((told, taken))
        self._wake()
        await taken

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _fitting(outcome: ToolOutcome, request: ToolRequest) -> ToolOutcome:
    """Hold a tool port to the call it was asked to make."""
    if not isinstance(outcome, ToolOutcome):
        msg = f"the tool port gave a {type(outcome).__name__} for {request.name!r}, not a ToolOutcome"
        raise TypeError(msg)
    if outcome.call_id == request.call_id:
        return outcome
    return replace(outcome, call_id=str(request.call_id))
