"""One round of tool calls, run at once (TOL)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from turnfleet_kernel.calls import Told, ToolCall, charged
from turnfleet_kernel.context import RequestContext
from turnfleet_kernel.contracts.interrupts import InvocationPaused, InvocationPreempted
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
    """Begin a round: ask ``next()`` until it is ``over``, then ``outcomes()``; ``close()`` if it is left before.

    The requests carry reserved call ids; outcomes known already are in the open round and come back through the
    tool port like all others (HK-4).
    """
    return ToolRound(plan, ctx, requests, streaming=streaming)


class ToolRound:
    """The calls of one round, each in a task of its own, so that a run that ends can end them (CXL-4)."""

    __slots__ = (
        "_closing",
        "_ctx",
        "_fatal",
        "_given",
        "_limit",
        "_port",
        "_preempted",
        "_requests",
        "_round",
        "_running",
        "_settled",
        "_started",
        "_steps",
        "_stopping",
        "_streaming",
        "_told",
        "_waiter",
    )

    def __init__(
        self, plan: InvocationPlan, ctx: RequestContext, requests: tuple[ToolRequest, ...], *, streaming: bool
    ) -> None:
        """Prepare; calls start with the first next()."""
        self._ctx = ctx
        self._round = ctx.current_round
        self._port = plan.bindings.tools
        self._limit = plan.limits.max_parallel_tools
        self._requests = requests
        self._streaming = streaming
        self._running: dict[str, asyncio.Task[None]] = {}
        self._started = 0
        self._settled: set[str] = set()
        self._given = 0
        """So many requests, from the first, have had their results queued."""
        self._steps: list[ToolOutcome] = []
        self._told: deque[tuple[Told, asyncio.Future[None]]] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._preempted: InvocationPreempted | None = None
        self._fatal: BaseException | None = None
        self._stopping = False
        """Whether no further call may start: one paused, or the run is to be left (TOL-4, CXL-7)."""
        self._closing = False

    @property
    def over(self) -> bool:
        """Tell whether no call runs, none will start, and all that happened was given."""
        if self._running or self._steps or self._told:
            return False
        return self._stopping or self._started == len(self._requests)

    async def next(self) -> Sequence[RoundStep]:
        """Wait for the next steps: what a tool told, one at a time (EVT-8), or results.

        Results come in request order, each as soon as all before it are over; after a pause, those that are known.
        """
        while True:
            if self._told:
                told, taken = self._told.popleft()
                if not taken.done():
                    taken.set_result(None)
                return (told,)
            if self._steps:
                steps, self._steps = self._steps, []
                return steps
            if self._started < len(self._requests) and not self._stopping:
                self._start_what_may()
            if not self._running:
                return ()
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
        if self._round.paused:
            interrupts = [
                replace(interrupt, call_id=request.call_id)
                for request in self._requests
                if (pause := self._round.paused.get(str(request.call_id))) is not None
                for interrupt in pause.interrupts
            ]
            raise InvocationPaused(*interrupts)
        outcomes = self._round.outcomes
        return tuple([outcomes[str(request.call_id)] for request in self._requests])

    async def close(self) -> None:
        """End what still runs: cancelled, and awaited within the grace (CXL-4)."""
        self._closing = True
        if self._running:
            names = {str(request.call_id): request.name for request in self._requests}
            tasks = {task: f"tool {names[call_id]} ({call_id})" for call_id, task in self._running.items()}
            await self._ctx.lifecycle.end_tasks(tasks)

    # -- inside

    def _start_what_may(self) -> None:
        while self._started < len(self._requests) and len(self._running) < self._limit and not self._stopping:
            request = self._requests[self._started]
            self._started += 1
            call_id = str(request.call_id)
            self._running[call_id] = asyncio.get_running_loop().create_task(self._call(request, call_id))

    async def _call(self, request: ToolRequest, call_id: str) -> None:
        turn_round = self._round
        call = ToolCall(
            call_id,
            request.name,
            self._tell,
            turn_round.stopped_children,
            above=self._ctx.above,
            child=turn_round.children.get(call_id),
            decisions=self._ctx.resolved_input("decisions"),
            streaming=self._streaming,
        )
        # The task has a context of its own: nothing to restore.
        enter(Ambient(self._ctx.identity, self._ctx.max_depth, call))
        clock = self._ctx.plan.bindings.clock
        began = clock.monotonic()
        error: str | None = None
        try:
            problem = None
            if not self._is_known(call_id):
                problem = schema_problem(self._port.schema(request.name), request.arguments)
            if problem is None:
                self._settle(call_id, charged(_fitting(await self._port.call(request), request)))
                return
            error = f"the arguments do not fit the schema of {request.name!r}: {problem}"
        except asyncio.CancelledError:
            if self._closing:
                raise
            error = "CancelledError: the tool cancelled itself"
        except Exception as failure:  # noqa: BLE001 - the model is told and the run goes on (TOL-2)
            error = f"{type(failure).__name__}: {failure}"
        except InvocationPaused as pause:
            self._stopping = True
            turn_round.paused[call_id] = pause
        except InvocationPreempted as handover:
            self._stopping = True
            self._preempted = handover
        except BaseException as fatal:  # noqa: BLE001 - raised again where the round is waited for
            self._stopping = True
            self._fatal = fatal
        if error is None:
            self._settle(call_id, None)
        else:
            duration_ms = (clock.monotonic() - began) * 1000
            self._settle(call_id, charged(ToolOutcome(call_id, request.name, error=error, duration_ms=duration_ms)))

    def _is_known(self, call_id: str) -> bool:
        """Tell whether the outcome is recorded or decided: what has happened needs to fit no schema of today (HK-4)."""
        if not self._round.replayed:
            return False
        if call_id in self._round.outcomes:
            return True
        return any(each.is_outcome and each.interrupt.call_id == call_id for each in self._round.decisions.values())

    def _settle(self, call_id: str, outcome: ToolOutcome | None) -> None:
        """Record that a call is over (without outcome: it waits), and wake the loop."""
        if outcome is not None:
            self._round.outcomes[call_id] = outcome
            self._settled.add(call_id)
        self._running.pop(call_id, None)
        self._queue_results(complete=self._stopping and not self._running)
        self._wake()

    def _queue_results(self, *, complete: bool) -> None:
        """Queue the results whose turn it is: up to the first gap, or all that are known once nothing runs."""
        while self._given < len(self._requests):
            call_id = str(self._requests[self._given].call_id)
            if call_id in self._settled:
                self._steps.append(self._round.outcomes[call_id])
            elif not complete:
                return
            self._given += 1

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
