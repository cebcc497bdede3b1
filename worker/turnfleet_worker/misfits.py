"""Runs that this worker cannot run: parked, or left to the worker that can (DESIGN 5, "Version")."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final

from turnfleet.store import Keys, commands
from turnfleet.store.executor import AsyncExecutor
from turnfleet.store.records import Claim, Offer
from turnfleet_kernel.errors import PlanError
from turnfleet_worker.errors import NewerJournal
from turnfleet_worker.offers import Offers
from turnfleet_worker.persistence import persist

SECOND_LOOK_SECONDS: Final = 1.0
"""How long a run that does not fit here waits before it is offered to the worker that it fits."""

MOST_REMEMBERED: Final = 10_000
"""Runs that this process could not read; one that is forgotten is tried once more."""

_KINDS: Final = {"model": "models", "tool": "tools", "stage": "stages", "delegate": "delegates"}
_log = logging.getLogger(__name__)


class Misfits:
    """Sets claimed runs aside that `worker` cannot run. `ttl_ms`: how long a run is kept that ends meanwhile."""

    def __init__(self, executor: AsyncExecutor, keys: Keys, offers: Offers, *, worker: str, ttl_ms: int) -> None:
        self._executor = executor
        self._keys = keys
        self._offers = offers
        self._worker = worker
        self._ttl_ms = ttl_ms
        self._later: set[asyncio.Task[None]] = set()
        self._unreadable: OrderedDict[str, None] = OrderedDict()

    def may_go_on(self, run_id: str) -> bool:
        """Whether a parked run may be let go for this worker: one that it could not read must wait for another."""
        return run_id not in self._unreadable

    async def set_aside(self, claim: Claim, error: PlanError | NewerJournal) -> dict[str, object]:
        """Park a run that does not fit here, or offer it again soon when it fits another worker; gives what to show."""
        _log.warning("run %s does not fit this worker: %s", claim.run_id, error)
        if isinstance(error, NewerJournal):
            self._unreadable[claim.run_id] = None
            if len(self._unreadable) > MOST_REMEMBERED:
                self._unreadable.popitem(last=False)
        unknown = error.unknown if isinstance(error, PlanError) else {}
        if unknown and await self._fits_elsewhere(unknown):
            offer = await persist(self._executor, commands.release(self._keys, claim.ref, seq=claim.seq + 1))
            if isinstance(offer, Offer):
                later = asyncio.get_running_loop().create_task(self._offer_later(offer), name="turnfleet-second-look")
                self._later.add(later)
                later.add_done_callback(self._later.discard)
            return {"state": "queued", "run_id": claim.run_id}
        park = commands.park(self._keys, claim.ref, missing=unknown, text=str(error), ttl_ms=self._ttl_ms)
        parked = await persist(self._executor, park)
        return {"state": parked.state, "run_id": claim.run_id, "missing": dict(unknown)}

    async def stop(self) -> None:
        """Offer nothing any more: what was released is left to the sweep."""
        later = list(self._later)
        for task in later:
            task.cancel()
        await asyncio.gather(*later, return_exceptions=True)

    async def _fits_elsewhere(self, unknown: Mapping[str, Sequence[str]]) -> bool:
        """Say whether another live worker has every name that this one lacks."""
        workers = await persist(self._executor, commands.workers(self._keys))
        return any(
            all(set(names) <= set(each.get(_KINDS[kind], ())) for kind, names in unknown.items())
            for each in workers
            if each.get("worker") != self._worker
        )

    async def _offer_later(self, offer: Offer) -> None:
        await asyncio.sleep(SECOND_LOOK_SECONDS)
        await self._offers.publish([offer])
