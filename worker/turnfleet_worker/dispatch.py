"""Turns a message into a claim: the broker only says "look at run R" (DESIGN 1)."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable

from celery.exceptions import Ignore, Reject

from turnfleet.ids import new_id
from turnfleet.store import commands
from turnfleet.store.records import Claim, NotClaimed
from turnfleet.wire.envelope import Envelope, new_run
from turnfleet.wire.trace_context import carrier_text
from turnfleet_worker.apart import Apart
from turnfleet_worker.claimed_runs import ClaimedRuns
from turnfleet_worker.intake import Intake
from turnfleet_worker.people import MILLISECONDS
from turnfleet_worker.persistence import persist
from turnfleet_worker.pool.ports import Delivery
from turnfleet_worker.revokes import Revokes
from turnfleet_worker.telling import CUT_SHORT
from turnfleet_worker.turns import Turns
from turnfleet_worker.workbench import Bench

_log = logging.getLogger(__name__)


class Dispatcher:
    """Looks at the run that a message names, and claims it for `runs` if it is there to be run.

    `worker` is what the claims are made out to. `draining` says whether nothing more is to be claimed. `counts` takes
    what became of messages, by a word for each.
    """

    def __init__(
        self,
        bench: Bench,
        *,
        worker: str,
        intake: Intake,
        turns: Turns,
        apart: Apart,
        revokes: Revokes,
        runs: ClaimedRuns,
        draining: Callable[[], bool],
        counts: Counter[str],
    ) -> None:
        self._bench = bench
        self._worker = worker
        self._intake = intake
        self._turns = turns
        self._apart = apart
        self._revokes = revokes
        self._runs = runs
        self._draining = draining
        self._counts = counts

    async def handle(self, envelope: object, delivery: Delivery) -> dict[str, object]:
        """Claim the run that a message names and run it; raises Celery's `Ignore` where there is nothing to do."""
        read = self._intake.read(envelope)
        if delivery.cancelled:
            await self._revokes.cancel(read.run_id)
            raise Ignore("cancelled before it started")
        try:
            return await self._take(read, delivery)
        except asyncio.CancelledError:
            if delivery.cancelled and not delivery.accepted:
                await self._revokes.cancel(read.run_id)
            raise

    async def _take(self, read: Envelope, delivery: Delivery) -> dict[str, object]:
        """Claim a run and work on it: beside others, or apart from them if it may be what kills workers (DESIGN 1)."""
        async with self._apart.beside():
            self._refuse_while_draining()
            if not await self._turns.may_run(read.options.thread_id, read.run_id):
                raise self._nothing_to_do(read.run_id, "not its thread's turn")
            claimed = await self._claim(read, delivery, alone=False)
            if isinstance(claimed, Claim):
                return await self._runs.work(claimed, delivery)
        if claimed.reason == "suspect":
            _log.warning("run %s lost its workers, one after another: it is tried apart from others", read.run_id)
            async with self._apart.alone(read.run_id) as alone:
                self._refuse_while_draining()
                if not alone:
                    # Its message is dropped: the sweep offers it again after a while.
                    raise self._nothing_to_do(read.run_id, "others are at work here, and it must be alone")
                claimed = await self._claim(read, delivery, alone=True)
                if isinstance(claimed, Claim):
                    return await self._runs.work(claimed, delivery)
        if claimed.state in CUT_SHORT:
            delivery.cancel()
        raise self._nothing_to_do(read.run_id, f"{claimed.reason} ({claimed.state})")

    def _refuse_while_draining(self) -> None:
        if self._draining():
            raise Reject("the worker is stopping", requeue=True)

    async def _claim(self, envelope: Envelope, delivery: Delivery, *, alone: bool) -> Claim | NotClaimed:
        foreign = not envelope.recorded
        return await persist(
            self._bench.executor,
            commands.claim(
                self._bench.keys,
                envelope.run_id,
                claim_id=new_id(),
                worker=self._worker,
                lease_ms=round(self._bench.settings.lease_seconds * MILLISECONDS),
                task_id=delivery.task_id,
                recorded=envelope.recorded,
                digest=envelope.digest,
                create=new_run(envelope, trace=carrier_text(delivery.carrier)) if foreign else None,
                alone=alone,
            ),
        )

    def _nothing_to_do(self, run_id: str, reason: str) -> Ignore:
        self._counts["nothing to do"] += 1
        _log.info("nothing to do for run %s: %s", run_id, reason)
        return Ignore(reason)
