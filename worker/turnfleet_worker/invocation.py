"""One claimed run, from the claim to the script that ends the claim."""

import asyncio
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, assert_never

from turnfleet.errors import ClaimLost, EventsTrimmed
from turnfleet.store import Command, Keys, commands
from turnfleet.store.executor import AsyncExecutor
from turnfleet.store.records import Claim, Ended, Ending, Offer
from turnfleet.wire.request import RequestBody
from turnfleet_kernel import InvocationKernel, RequestContext, record_pause, resume
from turnfleet_kernel.contracts.events import KernelEvent
from turnfleet_kernel.contracts.json import event_to_json, outcome_to_json, usage_to_json
from turnfleet_kernel.contracts.record import PauseRecord
from turnfleet_kernel.contracts.values import TurnRequest
from turnfleet_kernel.errors import PauseRecordError, TurnfleetError
from turnfleet_kernel.plan import InvocationPlan
from turnfleet_worker.children import Children
from turnfleet_worker.delegates import CHILDREN
from turnfleet_worker.durable import RunJournal, make_durable
from turnfleet_worker.ending import Drop, Finish, Leaving, Pause, Release, SetAside, Verdict, decide
from turnfleet_worker.fold import fold, round_start
from turnfleet_worker.gate import Gate
from turnfleet_worker.journal import all_paused
from turnfleet_worker.metrics import NO_METER, Meter
from turnfleet_worker.people import MILLISECONDS, stored_interrupt
from turnfleet_worker.persistence import persist
from turnfleet_worker.recovery import recover
from turnfleet_worker.registry import Registry
from turnfleet_worker.settings import WorkerSettings
from turnfleet_worker.sink import RunSink
from turnfleet_worker.tracing.runs import invoking, note_end, trace_to_note
from turnfleet_worker.trust import Trust
from turnfleet_worker.writer import Entry, RunWriter

_log = logging.getLogger(__name__)
PAGE = 500


@dataclass(frozen=True, slots=True)
class Bench:
    """What every invocation of a worker process works with."""

    kernel: InvocationKernel
    executor: AsyncExecutor
    keys: Keys
    registry: Registry
    settings: WorkerSettings
    draining: Callable[[], bool]
    meter: Meter = NO_METER
    trust: Trust = field(default_factory=Trust)

    @property
    def ttl_ms(self) -> int:
        """How long an ended run is kept."""
        return round(self.settings.retention_seconds * MILLISECONDS)


@dataclass(frozen=True, slots=True)
class Left:
    """How a claim ended: the run's `state` now, an offer to publish, what Flower shows, and the run's own error.

    `content` is what the run was about, for whoever may see it.
    """

    state: str
    offer: Offer | None = None
    interrupts: tuple[Mapping[str, Any], ...] = ()
    content: Mapping[str, Any] | None = None
    error: BaseException | None = None


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
        self.claim = claim = replace(claim, journal=admitted.entries)
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
        with invoking(self._plan.identity, self.claim.run_id) as span:
            left = await self._run()
            note_end(span, left.state, self._context.usage if self._context else None, left.error)
            return left

    async def _run(self) -> Left:
        self._task = asyncio.get_running_loop().create_task(self._consume(), name=f"run:{self.claim.run_id}")
        if self._verdict is not None:
            self._task.cancel()
        began = time.monotonic()
        cancelled = await self._wait_through(self._task)
        raised = None if self._task.cancelled() else self._task.exception()
        leaving = decide(self._verdict, self._sink.last if self._sink else None, raised)
        try:
            left = await self._leave(leaving)
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

    async def _consume(self) -> None:
        claim = self.claim
        plan = self._limited(self._plan)
        conversation = plan.bindings.conversation
        events = await self._events_since(round_start(claim.journal)) if claim.next_index else ()
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
        durable = make_durable(plan, journal, policy)
        durable = replace(durable, bindings=replace(durable.bindings, event_sink=self._sink))
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

    async def _events_since(self, first: int) -> Sequence[Mapping[str, Any]]:
        events: list[Mapping[str, Any]] = []
        after = first - 1
        while True:
            command = commands.read_events(self._bench.keys, self.claim.run_id, after=after, count=PAGE)
            try:
                page = await persist(self._bench.executor, command)
            except EventsTrimmed as trimmed:
                after = trimmed.first_index - 1
                continue
            events += page.events
            if not page.events:
                return events
            after = page.events[-1]["index"]

    async def _leave(self, leaving: Leaving) -> Left:
        try:
            return await self._end(leaving)
        except ClaimLost:
            return Left("lost")
        except TurnfleetError:
            _log.exception("run %s: its end was not written; the holder of the next lease goes on", self.claim.run_id)
            return Left("lost")

    async def _end(self, leaving: Leaving) -> Left:
        match leaving:
            case Drop():
                _log.warning("run %s: this worker's claim is gone; it stops here", self.claim.run_id)
                return Left("lost")
            case Release():
                return await self._release()
            case Pause(event=event):
                return await self._pause(event)
            case Finish():
                return await self._finish(leaving)
            case SetAside(error=error):
                return Left("set aside", error=error)  # the claim is the host's to end
            case _:
                assert_never(leaving)

    async def _release(self) -> Left:
        keys, ref, ttl_ms = self._bench.keys, self.claim.ref, self._bench.ttl_ms
        answer = await self._writer.conclude(
            lambda seq, entries, events: commands.release(
                keys, ref, seq=seq, entries=entries, events=events, ttl_ms=ttl_ms
            )
        )
        return Left("queued", offer=answer) if isinstance(answer, Offer) else Left(answer.state)

    async def _pause(self, event: KernelEvent) -> Left:
        try:
            record, journal = await self._verified(event)
            stored = [
                stored_interrupt(each, self._bench.registry.policy, anew=self._admitted.must_ask(each.id))
                for each in event.interrupts
            ]
            paused = self._bench.trust.sign_pauses(self.claim.run_id, journal, all_paused(record), stored)
        except (PauseRecordError, ValueError) as error:
            _log.exception("run %s cannot be paused", self.claim.run_id)
            return await self._finish(Finish("failed", None, error), index=event.index)
        usage = usage_to_json(self._context.usage) if self._context else None
        keys, ref, ttl_ms = self._bench.keys, self.claim.ref, self._bench.ttl_ms
        ended = await self._writer.conclude(
            lambda seq, entries, events: commands.pause(
                keys,
                ref,
                seq=seq,
                entries=[*entries, *paused],
                events=[*events, event_to_json(event)],
                interrupts=stored,
                usage=usage,
                ttl_ms=ttl_ms,
            )
        )
        shown = tuple({"id": each.id, "kind": each.kind, "tool": each.payload.get("tool")} for each in stored)
        asked = [json.dumps(each.payload.get("arguments", each.payload.get("question"))) for each in stored]
        return Left(ended.state, offer=ended.offer, interrupts=shown, content={"asked": asked})

    async def _verified(self, event: KernelEvent) -> tuple[PauseRecord, Sequence[Entry]]:
        """Read back what the store has, fold it, and compare it with what the kernel says the run is (DESIGN 4).

        Gives the record, and the journal as it was read. Raises `PauseRecordError`: on the day of the pause, not when
        a person answers.
        """
        assert self._context is not None
        plan = self._durable
        record = record_pause(plan, self._context)
        await self._writer.flushed()
        read = await persist(self._bench.executor, commands.journal(self._bench.keys, self.claim.run_id))
        journal = self._bench.trust.admit(record.run_id, read).entries
        entries = (*journal, *all_paused(record))
        folded = fold(
            entries,
            [*await self._events_since(round_start(entries)), event_to_json(event)],
            conversation=self._plan.bindings.conversation,
            run_id=record.run_id,
            plan_id=record.plan_id,
            ran_seconds=record.ran_seconds,
            next_index=event.index + 1,
        )
        written, meant = folded.record.timeless().model_dump(mode="json"), record.timeless().model_dump(mode="json")
        differing = [name for name in meant if written[name] != meant[name]]
        if differing:
            raise PauseRecordError(
                f"run {record.run_id} was not paused: its journal does not lead back to where it stood "
                f"(different: {', '.join(differing)}); this is a fault in turnfleet or in a conversation port"
            )
        return record, journal

    async def _finish(self, finish: Finish, *, index: int | None = None) -> Left:
        event = event_to_json(finish.event) if finish.event is not None else self._make_end(finish, index)
        outcome = None
        if finish.state == "completed" and finish.event is not None:
            outcome = outcome_to_json(finish.event.outcome)
        ending = Ending(
            state=finish.state,
            event=event,
            outcome=outcome,
            error=event.get("error"),
            usage=usage_to_json(self._context.usage) if self._context else None,
        )
        keys, ref, ttl_ms = self._bench.keys, self.claim.ref, self._bench.ttl_ms

        def build(seq: int, entries: Sequence[Entry], events: Sequence[Entry]) -> Command[Ended]:
            return commands.finish(keys, ref, seq=seq, entries=entries, events=events, ending=ending, ttl_ms=ttl_ms)

        ended = await self._writer.conclude(build)
        error = finish.error or TurnfleetError(str(event.get("error"))) if ended.state == "failed" else None
        return Left(ended.state, error=error, content={"answer": outcome["text"]} if outcome else None)

    def _make_end(self, finish: Finish, index: int | None) -> dict[str, Any]:
        """Make the terminal event that the kernel could not: it did not get far enough, or its end was not kept."""
        at = index if index is not None else (self._sink.position if self._sink else self.claim.next_index)
        now = self._plan.bindings.clock.now().timestamp()
        event: dict[str, Any] = {"run_id": self.claim.run_id, "index": at, "time": now}
        if finish.state == "cancelled":
            return event | {"kind": "cancelled", "reason": self.claim.cancel or "cancelled"}
        error = finish.error
        return event | {
            "kind": "error",
            "error": f"{type(error).__name__}: {error}" if error else "the run did not end",
        }


def _request(claim: Claim) -> TurnRequest:
    return RequestBody.model_validate(claim.request).turn_request(claim.run_id)
