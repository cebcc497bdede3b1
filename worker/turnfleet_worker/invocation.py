"""One invocation of a claimed run: where it goes on, what runs it, and what stops it."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from turnfleet.store.records import Claim
from turnfleet.wire.request import RequestBody
from turnfleet_kernel import RequestContext, resume
from turnfleet_kernel.contracts.values import TurnRequest
from turnfleet_kernel.plan import InvocationPlan
from turnfleet_worker.children import Children
from turnfleet_worker.delegates import CHILDREN
from turnfleet_worker.durable import RunJournal, make_durable
from turnfleet_worker.ending import Left, Verdict, decide
from turnfleet_worker.fold import round_start
from turnfleet_worker.gate import Gate
from turnfleet_worker.leaving import Departure, Reached
from turnfleet_worker.past_events import events_since
from turnfleet_worker.recovery import recover
from turnfleet_worker.sink import RunSink
from turnfleet_worker.tracing.runs import invoking, note_end, trace_to_note
from turnfleet_worker.workbench import Bench
from turnfleet_worker.writer import RunWriter


class Invocation:
    """One invocation of a claimed run. `stop` may be called from anything on the event loop.

    `on_progress` is called whenever the run's journal has gained more than the start of a call.
    """

    def __init__(
        self, bench: Bench, claim: Claim, plan: InvocationPlan, *, on_progress: Callable[[], None] = lambda: None
    ) -> None:
        self._admitted = admitted = bench.trust.admit(claim.run_id, claim.journal)
        bench.trust.report(claim.run_id, admitted)
        self._bench = bench
        self.claim = claim = claim if admitted.entries == claim.journal else replace(claim, journal=admitted.entries)
        self._plan = plan
        self._verdict: Verdict | None = None
        self._task: asyncio.Task[None] | None = None
        self._writer = RunWriter(
            bench.executor,
            bench.keys,
            claim.ref,
            seq=claim.seq,
            on_cancel=lambda _reason: self.stop(Verdict.CANCEL),
            on_lost=lambda _error: self.stop(Verdict.LOST),
            on_progress=on_progress,
            meter=bench.meter,
        )
        self._durable = plan
        self._sink: RunSink | None = None
        self._context: RequestContext | None = None

    def stop(self, verdict: Verdict) -> None:
        """Cancel the invocation, once; a lost claim overrules every other reason."""
        first = self._verdict is None
        if first or verdict is Verdict.LOST:
            self._verdict = verdict
        if first and self._task is not None:
            self._task.cancel()

    def _stop_again(self) -> bool:
        if self._verdict is None:
            return False
        if self._task is not None:
            self._task.cancel()
        return True

    async def run(self) -> Left:
        """Run to the end of the claim. Cancelling this call hands the run over; it still ends its claim first."""
        try:
            with invoking(self._plan.identity, self.claim.run_id) as span:
                left = await self._run()
                note_end(span, left.state, self._context.usage if self._context else None, left.error)
                return left
        finally:
            self._let_go()

    def _let_go(self) -> None:
        """Let go of all that leads back here: a run's memory goes with its end, not when garbage is next collected."""
        self._task = self._context = self._sink = None
        self._durable = self._plan
        del self._writer

    async def _run(self) -> Left:
        self._task = asyncio.get_running_loop().create_task(self._consume(), name=f"run:{self.claim.run_id}")
        if self._verdict is not None:
            self._task.cancel()
        began = time.monotonic()
        cancelled = await self._wait_through(self._task)
        raised = None if self._task.cancelled() else self._task.exception()
        leaving = decide(self._verdict, self._sink.last if self._sink else None, raised)
        try:
            left = await self._departure().leave(leaving)
        finally:
            await self._writer.abandon()
        self._bench.meter.left(self.claim, left.state, time.monotonic() - began)
        if cancelled:
            raise asyncio.CancelledError
        return left

    async def _wait_through(self, task: asyncio.Task[None]) -> bool:
        """Wait for the task even if we are cancelled: it is told to stop, and what it did is still written down."""
        cancelled = False
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                cancelled = True
                self.stop(Verdict.HAND_OVER)
        return cancelled

    def _departure(self) -> Departure:
        next_index = self._sink.position if self._sink else self.claim.next_index
        return Departure(
            self._bench,
            self.claim,
            self._plan,
            admitted=self._admitted,
            writer=self._writer,
            reached=Reached(self._durable, self._context, next_index),
        )

    async def _consume(self) -> None:
        claim = self.claim
        plan = self._limited(self._plan)
        conversation = plan.bindings.conversation
        events: Sequence[Mapping[str, Any]] = ()
        if claim.next_index:
            bench = self._bench
            events = await events_since(bench.executor, bench.keys, claim.run_id, round_start(claim.journal))
        now = plan.bindings.clock.now().timestamp()
        recovery = recover(claim, events, conversation=conversation, plan_id=plan.identity.plan_id, now=now)
        folded = recovery.folded
        for mark in recovery.marks:
            self._writer.event(dict(mark))
        known = folded.known if folded else {}
        gate, policy = Gate(draining=self._bench.draining, stop_again=self._stop_again), self._bench.registry.policy
        CHILDREN.set(Children(self._writer, known=known, gate=gate, policy=policy))
        self._sink = RunSink(self._writer, claim.next_index + len(recovery.marks))
        journal = RunJournal(self._writer, known=known, gate=gate, trace=trace_to_note(claim))
        durable = make_durable(plan, journal, policy, sink=self._sink)
        request = _request(claim)
        if folded is None:
            context = RequestContext(durable, run_id=claim.run_id)
        else:
            durable, request, context = resume(durable, folded.record, request, folded.decisions)
        journal.begin(context)
        self._context = context
        self._durable = durable
        async for _ in self._bench.kernel.stream(durable, request, context=context):
            pass  # the sink has seen it

    def _limited(self, plan: InvocationPlan) -> InvocationPlan:
        deadline = self.claim.deadline_seconds
        return plan if deadline is None else replace(plan, limits=replace(plan.limits, deadline_seconds=deadline))


def _request(claim: Claim) -> TurnRequest:
    return RequestBody.model_validate(claim.request).turn_request(claim.run_id)
