"""Celery's revoke and terminate, as a cancel of the run (DESIGN 5)."""

import logging
from contextlib import suppress
from typing import Final

from turnfleet.errors import FleetUnavailable, InvalidId, UnknownRun
from turnfleet.store import Keys, commands
from turnfleet.store.executor import AsyncExecutor
from turnfleet.store.transitions import TERMINAL_STATES
from turnfleet_worker.persistence import persist
from turnfleet_worker.turns import Turns

FIRST_OF_LATER_TASKS: Final = 2
"""A run's first task has the run's own id; the number of a later one stands behind a colon."""

_log = logging.getLogger(__name__)


class Revokes:
    """Records that somebody revoked or terminated a run's task. `ttl_ms`: how long an ended run is kept."""

    def __init__(self, executor: AsyncExecutor, keys: Keys, turns: Turns, *, ttl_ms: int) -> None:
        self._executor = executor
        self._keys = keys
        self._turns = turns
        self._ttl_ms = ttl_ms

    async def revoke(self, task_id: str) -> None:
        """Cancel the run that a task id names, if there is one: `run`, or `run:2` and so on once it was offered so."""
        if await self.cancel(task_id):
            return
        run_id, _, number = task_id.rpartition(":")
        if run_id and number.isascii() and number.isdigit():
            with suppress(UnknownRun, InvalidId):
                status = await persist(self._executor, commands.status(self._keys, run_id))
                if FIRST_OF_LATER_TASKS <= int(number) <= status.offers:
                    await self.cancel(run_id)

    async def cancel(self, run_id: str) -> bool:
        """Cancel a run; gives whether there is one of this id. One that waited has ended, and its thread goes on."""
        try:
            command = commands.cancel(self._keys, run_id, reason="revoked through Celery", ttl_ms=self._ttl_ms)
            cancelled = await persist(self._executor, command)
        except (UnknownRun, InvalidId):
            _log.info("task %s was revoked, and no run has this id", run_id)
            return False
        if cancelled.accepted and cancelled.state in TERMINAL_STATES:
            try:
                await self._turns.pass_on(cancelled.thread_id, run_id)
            except FleetUnavailable as error:
                _log.warning("thread %s waits for the sweep: %s", cancelled.thread_id, error)
        return True
