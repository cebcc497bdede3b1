"""The claimed runs of a process: each is worked on to the end of its claim, and hears what is decided elsewhere."""

import asyncio
import logging
from collections import Counter
from contextlib import suppress

from structlog.contextvars import bound_contextvars

from turnfleet.errors import BadSignature, FleetUnavailable
from turnfleet.store.records import Beat, Claim, ClaimRef
from turnfleet.store.transitions import TERMINAL_STATES
from turnfleet_kernel import InvocationPlan
from turnfleet_kernel.errors import PlanError
from turnfleet_worker.apart import Apart
from turnfleet_worker.ending import Left, Verdict
from turnfleet_worker.errors import NewerJournal
from turnfleet_worker.heartbeat import Heartbeat
from turnfleet_worker.invocation import Invocation
from turnfleet_worker.logs import labels_of
from turnfleet_worker.misfits import Misfits
from turnfleet_worker.offers import Offers
from turnfleet_worker.plans import Plans
from turnfleet_worker.pool.ports import Delivery
from turnfleet_worker.rate import Rate
from turnfleet_worker.refusal import refuse
from turnfleet_worker.revokes import Revokes
from turnfleet_worker.telling import result_of
from turnfleet_worker.tracing.runs import note_state, processing
from turnfleet_worker.turns import Turns
from turnfleet_worker.workbench import Bench

_log = logging.getLogger(__name__)


class ClaimedRuns:
    """Turns a claim into an invocation. All of it happens on the event loop.

    `worker` is what the claims were made out to. `counts` takes how many there were, under "claimed".
    """

    def __init__(
        self,
        bench: Bench,
        *,
        worker: str,
        plans: Plans,
        offers: Offers,
        turns: Turns,
        heartbeat: Heartbeat,
        apart: Apart,
        misfits: Misfits,
        revokes: Revokes,
        counts: Counter[str],
    ) -> None:
        self._bench = bench
        self._worker = worker
        self._plans = plans
        self._offers = offers
        self._turns = turns
        self._heartbeat = heartbeat
        self._apart = apart
        self._misfits = misfits
        self._revokes = revokes
        self._counts = counts
        self._running: dict[str, Invocation] = {}
        self._idle = asyncio.Event()
        self._claims = Rate()

    @property
    def in_flight(self) -> int:
        """How many runs are worked on."""
        return len(self._running)

    @property
    def claims_per_second(self) -> float:
        """How often a run was claimed of late. Safe from any thread."""
        return self._claims.per_second()

    async def work(self, claim: Claim, delivery: Delivery) -> dict[str, object]:
        """Work on a claimed run, and keep its lease alive meanwhile.

        Gives the result of its task, or raises what Celery shows instead.
        """
        self._counts["claimed"] += 1
        self._claims.tick()
        self._bench.meter.claimed(claim)
        delivery.labels = labels_of(claim, self._worker)
        delivery.accept()
        self._heartbeat.add(claim.ref)
        try:
            with bound_contextvars(**delivery.labels), processing(self._bench.keys.fleet, claim, delivery):
                return await self._bring_to_an_end(claim, delivery)
        finally:
            self._heartbeat.remove(claim.ref)

    async def _bring_to_an_end(self, claim: Claim, delivery: Delivery) -> dict[str, object]:
        try:
            self._bench.trust.check_record(claim)
            plan = self._plans.get(claim.plan_id, claim.plan)
        except BadSignature as error:
            left = await refuse(self._bench, claim, error)
        except PlanError as error:
            return await self._misfits.set_aside(claim, error)
        else:
            left = await self._invoke(claim, plan, delivery)
            if isinstance(left.error, NewerJournal):
                return await self._misfits.set_aside(claim, left.error)
        note_state(left.state)
        await self._follow_up(claim, left)
        return result_of(claim.run_id, left, delivery, content=self._bench.settings.show_content)

    async def _invoke(self, claim: Claim, plan: InvocationPlan, delivery: Delivery) -> Left:
        invocation = Invocation(self._bench, claim, plan, on_progress=lambda: self._apart.acquit(claim.run_id))
        self._running[claim.claim_id] = invocation
        running = asyncio.ensure_future(invocation.run())
        try:
            try:
                return await asyncio.shield(running)
            except asyncio.CancelledError:
                # A terminate is a cancel of the run; whatever else cancels us ends this process's part of it.
                if delivery.cancelled:
                    await self._revokes.cancel(claim.run_id)
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
            await self._offers.publish([left.offer])
        if left.state in TERMINAL_STATES:
            await self._pass_turn(claim.thread_id, claim.run_id)

    async def _pass_turn(self, thread_id: str | None, run_id: str) -> None:
        try:
            await self._turns.pass_on(thread_id, run_id)
        except FleetUnavailable as error:
            _log.warning("thread %s waits for the sweep: %s", thread_id, error)

    # -- verdicts from outside

    def heard_cancel(self, run_id: str) -> None:
        """Take a cancel that was published; runs of other processes are none of ours."""
        for invocation in list(self._running.values()):
            if invocation.claim.run_id == run_id:
                invocation.stop(Verdict.CANCEL)

    def heard_beat(self, ref: ClaimRef, beat: Beat) -> None:
        """Take what a heartbeat learned of a claim that is to end."""
        invocation = self._running.get(ref.claim_id)
        if invocation is not None:
            invocation.stop(Verdict.CANCEL if beat.alive else Verdict.LOST)

    def hand_over(self) -> None:
        """Cut every run short and hand it back."""
        for invocation in self._running.values():
            invocation.stop(Verdict.HAND_OVER)

    async def until_idle(self, seconds: float) -> None:
        """Wait until nothing is worked on, at most `seconds`."""
        if self._running:
            self._idle.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), seconds)
