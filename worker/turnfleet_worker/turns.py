"""Runs of one thread go one after another: whose turn it is, and passing it on."""

from turnfleet.errors import UnknownRun
from turnfleet.store import Keys, commands
from turnfleet.store.executor import AsyncExecutor
from turnfleet.store.transitions import TERMINAL_STATES
from turnfleet_worker.offers import Offers


class Turns:
    """The worker's side of a thread's line of runs."""

    def __init__(self, executor: AsyncExecutor, keys: Keys, offers: Offers) -> None:
        self._executor = executor
        self._keys = keys
        self._offers = offers

    async def may_run(self, thread_id: str | None, run_id: str) -> bool:
        """Say whether it is this run's turn. A run in front that ended without leaving (its worker died) is passed."""
        if thread_id is None:
            return True
        # Joining is idempotent: a run whose producer died before it could join does so here.
        await self._executor.execute(commands.thread_join(self._keys, thread_id, run_id))
        head = await self._executor.execute(commands.thread_head(self._keys, thread_id))
        while head is not None and head != run_id and await self._is_over(head):
            head = await self._executor.execute(commands.thread_leave(self._keys, thread_id, head))
        return head == run_id

    async def pass_on(self, thread_id: str | None, run_id: str) -> None:
        """Leave the line of a run that ended, and offer the next one if it was this one's turn."""
        if thread_id is None:
            return
        had_turn = await self._executor.execute(commands.thread_head(self._keys, thread_id)) == run_id
        head = await self._executor.execute(commands.thread_leave(self._keys, thread_id, run_id))
        while head is not None and await self._is_over(head):
            head = await self._executor.execute(commands.thread_leave(self._keys, thread_id, head))
        if head is None or not had_turn:
            return
        offer = await self._executor.execute(commands.offer_now(self._keys, head))
        if offer is not None:
            await self._offers.publish([offer])

    async def _is_over(self, run_id: str) -> bool:
        try:
            snapshot = await self._executor.execute(commands.status(self._keys, run_id))
        except UnknownRun:
            return True
        return snapshot.state in TERMINAL_STATES
