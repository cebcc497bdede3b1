"""Say it until the store has heard it: retries for commands that are safe to repeat.

Every command that a worker sends for a claimed run is fenced by its claim id and numbered, so repeating one
whose reply was lost changes nothing. An outage therefore makes a run wait, and a lost claim ends the waiting.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from turnfleet.errors import FleetUnavailable
from turnfleet.store import Command
from turnfleet.store.executor import AsyncExecutor

T = TypeVar("T")

FIRST_PAUSE_SECONDS: Final = 0.05
LONGEST_PAUSE_SECONDS: Final = 1.0

_log = logging.getLogger(__name__)


async def persist(executor: AsyncExecutor, command: Command[T]) -> T:
    """Execute a repeatable command, waiting out an unreachable store for as long as it takes.

    Cancellation ends the wait. Errors that are answers (`ClaimLost`, `IllegalTransition`, ...) pass through.
    """
    return await outlast(lambda: executor.execute(command))


async def outlast(attempt: Callable[[], Awaitable[T]]) -> T:
    """Attempt something that may be repeated until the store answers."""
    pause = FIRST_PAUSE_SECONDS
    while True:
        try:
            return await attempt()
        except FleetUnavailable as error:
            if pause == FIRST_PAUSE_SECONDS:
                _log.warning("%s; trying again until it answers", error)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
