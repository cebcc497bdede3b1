"""How far each queue has been worked off, as one sweep knows it: what is no older than that is not lost."""

from collections.abc import Collection
from contextlib import suppress

from turnfleet.errors import InvalidId, UnknownRun
from turnfleet.store import Keys, commands
from turnfleet.store.executor import AsyncExecutor
from turnfleet_worker.backlog import Lane
from turnfleet_worker.offers import Offers


class Reach:
    """What was found in the queues that were looked into. One sweep has one."""

    def __init__(self, executor: AsyncExecutor, keys: Keys, offers: Offers) -> None:
        self._executor = executor
        self._keys = keys
        self._offers = offers
        self._answers = True
        self.looked: set[str] = set()
        """The queues that were looked into, or that their broker cannot show."""
        self.waiting_since: dict[Lane, int] = {}
        """When the oldest message of each lane was offered (ms); lanes without one are left out."""

    async def look(self, queues: Collection[str]) -> bool:
        """Look into queues; False when the broker does not answer: then it is not asked again, and nothing is known."""
        oldest = await self._offers.oldest(queues) if self._answers else None
        if oldest is None:
            self._answers = False
            return False
        for lane, run_id in oldest.items():
            with suppress(UnknownRun, InvalidId):
                run = await self._executor.execute(commands.status(self._keys, run_id))
                if run.offered_ms is not None:
                    self.waiting_since[lane] = run.offered_ms
        self.looked.update(queues)
        return True
