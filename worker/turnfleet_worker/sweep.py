"""The sweep: whatever died half-way is found again (DESIGN 1).

What happens to a run is decided by the store's script; this module asks it shard by shard and publishes the offers
that come back. Any worker may sweep; a short lock that expires by itself keeps it to one at a time.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from turnfleet.errors import FleetUnavailable, TurnfleetError
from turnfleet.store import Keys, commands
from turnfleet.store.commands.survey import Survey, merge_surveys
from turnfleet.store.executor import AsyncExecutor
from turnfleet.store.records import Offer, SweepPolicy, Swept
from turnfleet.wire.broker import default_queue
from turnfleet_worker.metrics import NO_METER, Meter
from turnfleet_worker.offers import Offers
from turnfleet_worker.outage import OutageWatch, ServerClocks
from turnfleet_worker.people import MILLISECONDS
from turnfleet_worker.pool.ports import SendEvent
from turnfleet_worker.reach import Reach
from turnfleet_worker.telling import event_of
from turnfleet_worker.turns import Turns

PARKED_PAGE: Final = 50

_log = logging.getLogger(__name__)


class Sweeper:
    """Sweeps every `every_seconds`, while this process has the lock.

    `fits` says whether this worker can run a run, by its id and its plan as recorded: id and content.
    `clock` gives monotonic seconds that pass as the server's do. `send_event` tells Flower of tasks whose worker was
    lost.
    """

    def __init__(
        self,
        executor: AsyncExecutor,
        keys: Keys,
        *,
        owner: str,
        every_seconds: float,
        policy: SweepPolicy,
        offers: Offers,
        turns: Turns,
        fits: Callable[[str, str, Mapping[str, Any]], bool],
        clock: Callable[[], float] = time.monotonic,
        meter: Meter = NO_METER,
        send_event: SendEvent = lambda _kind, _fields: None,
    ) -> None:
        self._send_event = send_event
        self._meter = meter
        self._executor = executor
        self._keys = keys
        self._owner = owner
        self._every = every_seconds
        self._policy = policy
        self._offers = offers
        self._turns = turns
        self._fits = fits
        self._outages = OutageWatch(policy.quiet_ms / MILLISECONDS)
        self._clocks = ServerClocks(clock)
        self._next_shard = 0
        self._queues = {default_queue(keys.fleet)}
        """Queues that runs of the fleet waited on for long: each sweep looks into them."""

    async def run(self) -> None:
        """Sweep until cancelled. A store or broker that is away is tried again at the next turn."""
        while True:
            try:
                await self.sweep_once()
            except FleetUnavailable as error:
                _log.warning("the sweep is waiting: %s", error)
            except TurnfleetError:
                _log.exception("the sweep failed; it goes on at its next turn")
            await asyncio.sleep(self._every)

    async def sweep_once(self) -> None:
        """Sweep every shard if the lock is ours, and let parked runs go on that this worker can run."""
        lock_ms = round(self._every * 3000)
        # Every worker asks at every turn, so every one notices when the store was away, whoever sweeps then.
        with self._outages.asking():
            ours = await self._executor.execute(commands.sweep_lock(self._keys, self._owner, lock_ms))
        if ours:
            reach = Reach(self._executor, self._keys, self._offers)
            await reach.look(self._queues)
            for _ in range(self._keys.shards):
                # A shard whose server is away ends this turn; the next one begins with the shard behind it.
                shard, self._next_shard = self._next_shard, (self._next_shard + 1) % self._keys.shards
                await self._sweep_shard(shard, reach)
        if self._meter.wants_survey:
            self._meter.surveyed(await self._survey() if ours else None)
        await self._unpark()

    async def _survey(self) -> Survey:
        late_ms = round(self._every * 3 * MILLISECONDS)
        each = (commands.survey(self._keys, shard, late_ms=late_ms, limit=1) for shard in range(self._keys.shards))
        return merge_surveys(await asyncio.gather(*map(self._executor.execute, each)))

    async def _sweep_shard(self, shard: int, reach: Reach) -> None:
        more = True
        while more:
            if self._policy.quiet_ms and self._clocks.now_ms(shard) is None:
                await self._ask(shard, reach)  # does nothing yet: its answer is the time
            swept = await self._ask(shard, reach)
            self._meter.swept(swept)
            await self._offers.publish(swept.offers)
            self._queues.update(swept.unseen)
            for lost in swept.lost_tasks:
                self._send_event(*event_of(lost))
            for ended in swept.ended:
                await self._turns.pass_on(ended.thread_id, ended.run_id)
            if swept.lost or swept.failed or swept.expired:
                _log.warning(
                    "sweep of shard %d: %d leases lost, %d runs failed as dead letters, %d expired",
                    shard,
                    swept.lost,
                    swept.failed,
                    swept.expired,
                )
            # While the broker does not answer, what it should be asked about waits for the next turn.
            more = (not swept.unseen or await reach.look(swept.unseen)) and swept.more

    async def _ask(self, shard: int, reach: Reach) -> Swept:
        policy = replace(self._policy, hold_ms=round(self._outages.hold_seconds() * MILLISECONDS))
        sent = self._clocks.now_ms(shard)
        with self._outages.asking():
            swept = await self._executor.execute(
                commands.sweep(
                    self._keys,
                    shard,
                    policy,
                    waiting_since=reach.waiting_since,
                    looked=reach.looked,
                    sent_ms=sent,
                )
            )
        self._clocks.heard(shard, swept.now_ms)
        return swept

    async def _unpark(self) -> None:
        """Let go what is parked and fits here. Every worker looks: what one lacks another may have."""
        for shard in range(self._keys.shards):
            page = await self._executor.execute(commands.listing(self._keys, shard, state="parked", limit=PARKED_PAGE))
            offers: list[Offer] = []
            for row in page.rows:
                definition = await self._executor.execute(commands.definition(self._keys, row.run_id))
                if self._fits(row.run_id, row.plan_id, definition.plan):
                    offer = await self._executor.execute(commands.unpark(self._keys, row.run_id))
                    offers += [offer] if offer else []
            await self._offers.publish(offers)
