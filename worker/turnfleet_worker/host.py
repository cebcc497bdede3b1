"""The host of a worker process: turns a message into a claim, and a claim into an invocation.

One kernel, one connection to the store, one heartbeat and one sweep serve all runs of the process. The pool knows
none of this; it hands in messages and gives out slots.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from celery.exceptions import Ignore, Reject
from structlog.contextvars import bound_contextvars

from turnfleet.errors import BadSignature, FleetUnavailable
from turnfleet.ids import new_id
from turnfleet.store import Keys, commands
from turnfleet.store.records import Beat, Claim, ClaimRef, NotClaimed
from turnfleet.store.transitions import TERMINAL_STATES
from turnfleet.wire.envelope import Envelope, new_run
from turnfleet.wire.trace_context import carrier_text
from turnfleet_kernel import InvocationPlan
from turnfleet_kernel.errors import PlanError
from turnfleet_worker.announcement import Announcer
from turnfleet_worker.apart import Apart
from turnfleet_worker.control import ControlListener
from turnfleet_worker.ending import Verdict
from turnfleet_worker.errors import NewerJournal
from turnfleet_worker.heartbeat import Heartbeat
from turnfleet_worker.intake import Intake
from turnfleet_worker.invocation import Bench, Invocation, Left
from turnfleet_worker.logs import labels_of
from turnfleet_worker.metrics.endpoint import Endpoint
from turnfleet_worker.misfits import Misfits
from turnfleet_worker.offers import Offers
from turnfleet_worker.people import MILLISECONDS
from turnfleet_worker.persistence import outlast, persist
from turnfleet_worker.plans import Plans
from turnfleet_worker.pool.ports import Delivery
from turnfleet_worker.preconditions import check_store
from turnfleet_worker.rate import Rate
from turnfleet_worker.refusal import refuse
from turnfleet_worker.revokes import Revokes
from turnfleet_worker.sweep import Sweeper
from turnfleet_worker.telling import CUT_SHORT, result_of
from turnfleet_worker.tracing.runs import note_state, processing
from turnfleet_worker.turns import Turns

HAND_OVER_SECONDS: Final = 4.0
"""How long cancelled runs may take to be handed back once the drain is over."""

HURRIED_SECONDS: Final = 0.8
"""The same when the process was told to go at once."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Parts:
    """What the composition root makes for a host (see bootstrap.py)."""

    bench: Bench
    intake: Intake
    plans: Plans
    offers: Offers
    turns: Turns
    heartbeat: Heartbeat
    sweeper: Sweeper
    announcer: Announcer
    control: ControlListener
    apart: Apart
    misfits: Misfits
    revokes: Revokes
    worker: str
    allow_eviction: bool
    endpoint: Endpoint | None = None


class WorkerHost:
    """The `Host` that the pool hands its messages to."""

    def __init__(self) -> None:
        self.draining = False
        self.counts: Counter[str] = Counter()
        """What became of messages, by a word for each."""
        self._running: dict[str, Invocation] = {}
        self._background: list[asyncio.Task[Any]] = []
        self._idle = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._claims = Rate()
        self.pool_info: Callable[[], Mapping[str, Any]] = dict
        """What the pool knows of the process, `info()` with it once there is a pool."""

    def assemble(self, parts: Parts) -> None:
        """Take the parts; they need the host's methods, so they are made after it."""
        self._parts = parts
        self._bench = parts.bench
        self._keys: Keys = parts.bench.keys

    @property
    def in_flight(self) -> int:
        """How many runs this process works on."""
        return len(self._running)

    def info(self) -> Mapping[str, Any]:
        """Say what the process is at, for whoever asks; from any thread."""
        return {
            "runs": self.in_flight,
            "claims-per-second": round(self._claims.per_second(), 2),
            "messages": dict(self.counts),
        }

    def see_pool(self, info: Callable[[], Mapping[str, Any]]) -> None:
        """Take what tells of the pool, and of this host with it."""
        self.pool_info = info

    async def start(self) -> None:
        """Check the store, announce the worker, and start heartbeat, sweep and control.

        Waits for a store that is away, as Celery waits for its broker. Raises `UnsafeStore`.
        """
        self._loop = asyncio.get_running_loop()
        if self._parts.endpoint is not None:
            self._parts.endpoint.start()
        await outlast(self._enter)
        self._parts.heartbeat.start()
        self._parts.control.start()
        self._spawn(self._parts.announcer.run(), "announce")
        self._spawn(self._parts.sweeper.run(), "sweep")

    async def _enter(self) -> None:
        await check_store(self._bench.executor, allow_eviction=self._parts.allow_eviction)
        await self._parts.announcer.announce()

    def drain(self) -> None:
        """Claim nothing more; running invocations hand over at their next journal point. Safe from any thread."""
        self.draining = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._parts.apart.close)

    @property
    def handing_over(self) -> bool:
        """Whether runs are to hand over at their next journal point: the process ends, or a suspect must be alone."""
        return self.draining or self._parts.apart.clearing

    async def stop(self, *, drain_seconds: float) -> None:
        """Hand back what still runs after `drain_seconds`, and close."""
        self.draining = True
        self._parts.apart.close()
        if drain_seconds > 0:
            await self._until_idle(drain_seconds)
        for invocation in self._running.values():
            invocation.stop(Verdict.HAND_OVER)
        await self._until_idle(HAND_OVER_SECONDS if drain_seconds > 0 else HURRIED_SECONDS)
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self._parts.misfits.stop()
        await self._parts.control.stop()
        await self._parts.announcer.retract()
        self._parts.heartbeat.stop()
        self._parts.offers.close()
        if self._parts.endpoint is not None:
            await asyncio.to_thread(self._parts.endpoint.stop)
        await self._bench.executor.aclose()

    async def make_rounds(self) -> None:
        """Beat, announce and sweep now, not when their turn comes: so the testing kit lets time pass."""
        self._parts.heartbeat.beat_once()
        await self._parts.announcer.announce()
        await self._parts.sweeper.sweep_once()

    async def _until_idle(self, seconds: float) -> None:
        if self._running:
            self._idle.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), seconds)

    def _spawn(self, work: Awaitable[Any], name: str) -> None:
        task = asyncio.ensure_future(work)
        task.set_name(f"turnfleet-{name}")
        self._background = [each for each in self._background if not each.done()]
        self._background.append(task)

    # -- messages

    async def handle(self, envelope: object, delivery: Delivery) -> dict[str, object]:
        """Look at the run that a message names, and run it if it is there to be run (DESIGN 1)."""
        read = self._parts.intake.read(envelope)
        if delivery.cancelled:
            await self._parts.revokes.cancel(read.run_id)
            raise Ignore("cancelled before it started")
        try:
            return await self._take(read, delivery)
        except asyncio.CancelledError:
            if delivery.cancelled and not delivery.accepted:
                await self._parts.revokes.cancel(read.run_id)
            raise

    async def _take(self, read: Envelope, delivery: Delivery) -> dict[str, object]:
        """Claim a run and work on it: beside others, or apart from them if it may be what kills workers (DESIGN 1)."""
        apart = self._parts.apart
        async with apart.beside():
            self._refuse_while_draining()
            if not await self._parts.turns.may_run(read.options.thread_id, read.run_id):
                raise self._nothing_to_do(read.run_id, "not its thread's turn")
            claimed = await self._claim(read, delivery, alone=False)
            if isinstance(claimed, Claim):
                return await self._hold(claimed, delivery)
        if claimed.reason == "suspect":
            _log.warning("run %s lost its workers, one after another: it is tried apart from others", read.run_id)
            async with apart.alone(read.run_id) as alone:
                self._refuse_while_draining()
                if not alone:
                    # Its message is dropped: the sweep offers it again after a while.
                    raise self._nothing_to_do(read.run_id, "others are at work here, and it must be alone")
                claimed = await self._claim(read, delivery, alone=True)
                if isinstance(claimed, Claim):
                    return await self._hold(claimed, delivery)
        if claimed.state in CUT_SHORT:
            delivery.cancel()
        raise self._nothing_to_do(read.run_id, f"{claimed.reason} ({claimed.state})")

    def _refuse_while_draining(self) -> None:
        if self.draining:
            raise Reject("the worker is stopping", requeue=True)

    async def _hold(self, claim: Claim, delivery: Delivery) -> dict[str, object]:
        """Work on a claimed run, and keep its lease alive meanwhile."""
        self.counts["claimed"] += 1
        self._claims.tick()
        self._bench.meter.claimed(claim)
        delivery.labels = labels_of(claim, self._parts.worker)
        delivery.accept()
        self._parts.heartbeat.add(claim.ref)
        try:
            with bound_contextvars(**delivery.labels), processing(self._keys.fleet, claim, delivery):
                return await self._work(claim, delivery)
        finally:
            self._parts.heartbeat.remove(claim.ref)

    async def _claim(self, envelope: Envelope, delivery: Delivery, *, alone: bool) -> Claim | NotClaimed:
        return await persist(
            self._bench.executor,
            commands.claim(
                self._keys,
                envelope.run_id,
                claim_id=new_id(),
                worker=self._parts.worker,
                lease_ms=round(self._bench.settings.lease_seconds * MILLISECONDS),
                recorded=envelope.recorded,
                digest=envelope.digest,
                create=None if envelope.plan is None else new_run(envelope, trace=carrier_text(delivery.carrier)),
                alone=alone,
            ),
        )

    def _nothing_to_do(self, run_id: str, reason: str) -> Ignore:
        self.counts["nothing to do"] += 1
        _log.info("nothing to do for run %s: %s", run_id, reason)
        return Ignore(reason)

    # -- a claimed run

    async def _work(self, claim: Claim, delivery: Delivery) -> dict[str, object]:
        try:
            self._bench.trust.check_record(claim)
            plan = self._parts.plans.get(claim.plan_id, claim.plan)
        except BadSignature as error:
            left = await refuse(self._bench, claim, error)
        except PlanError as error:
            return await self._parts.misfits.set_aside(claim, error)
        else:
            left = await self._invoke(claim, plan, delivery)
            if isinstance(left.error, NewerJournal):
                return await self._parts.misfits.set_aside(claim, left.error)
        note_state(left.state)
        await self._follow_up(claim, left)
        return result_of(claim.run_id, left, delivery, content=self._bench.settings.show_content)

    async def _invoke(self, claim: Claim, plan: InvocationPlan, delivery: Delivery) -> Left:
        run_id, apart = claim.run_id, self._parts.apart
        invocation = Invocation(self._bench, claim, plan, on_progress=lambda: apart.acquit(run_id))
        self._running[claim.claim_id] = invocation
        running = asyncio.ensure_future(invocation.run())
        try:
            try:
                return await asyncio.shield(running)
            except asyncio.CancelledError:
                # A terminate is a cancel of the run; whatever else cancels us ends this process's part of it.
                if delivery.cancelled:
                    await self._parts.revokes.cancel(claim.run_id)
                    invocation.stop(Verdict.CANCEL)
                else:
                    invocation.stop(Verdict.HAND_OVER)
                left = await running
                await self._follow_up(claim, left)
                raise
        finally:
            self._running.pop(claim.claim_id, None)
            if not self._running:
                self._idle.set()

    async def _follow_up(self, claim: Claim, left: Left) -> None:
        """Publish the offer that the end of a claim left, and pass on the turn of a run that ended."""
        if left.offer is not None:
            await self._parts.offers.publish([left.offer])
        if left.state in TERMINAL_STATES:
            await self._pass_turn(claim.thread_id, claim.run_id)

    async def _pass_turn(self, thread_id: str | None, run_id: str) -> None:
        try:
            await self._parts.turns.pass_on(thread_id, run_id)
        except FleetUnavailable as error:
            _log.warning("thread %s waits for the sweep: %s", thread_id, error)

    # -- verdicts from outside

    async def revoke(self, task_id: str) -> None:
        """Take a revoke of a task, wherever it is: cancel its run, if it is one's."""
        await self._parts.revokes.revoke(task_id)

    def heard_cancel(self, run_id: str) -> None:
        """Take a cancel that was published; runs of other processes are none of ours."""
        for invocation in list(self._running.values()):
            if invocation.claim.run_id == run_id:
                invocation.stop(Verdict.CANCEL)

    def heard_beat(self, ref: ClaimRef, beat: Beat) -> None:
        """Take what a heartbeat learned; called from its thread."""
        if beat.alive and beat.cancel is None and not beat.expired:
            return
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._judge, ref, beat)

    def _judge(self, ref: ClaimRef, beat: Beat) -> None:
        invocation = self._running.get(ref.claim_id)
        if invocation is not None:
            invocation.stop(Verdict.CANCEL if beat.alive else Verdict.LOST)
