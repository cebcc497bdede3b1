"""Hears of cancels as they are asked for: one subscription a process, for all its runs.

Only a shortcut: a cancel that is not heard here is learned with the next step or heartbeat (DESIGN 5).
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from redis.exceptions import RedisError

from turnfleet.store import Keys
from turnfleet.store.cancelling import end_task
from turnfleet.store.executor import AsyncExecutor

PAUSE_SECONDS: Final = 1.0

_log = logging.getLogger(__name__)


class ControlListener:
    """Calls `heard(run_id)` whenever a run of the fleet was cancelled while running.

    In a cluster these few messages are told to every node, so any of them will do; when one fails, the next.
    """

    def __init__(self, executor: AsyncExecutor, keys: Keys, heard: Callable[[str], None]) -> None:
        self._executor = executor
        self._failures = 0
        self._prefix = keys.control_prefix
        self._heard = heard
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start listening."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="turnfleet-control")

    async def stop(self) -> None:
        """Stop listening and close the connection."""
        if self._task is not None:
            await end_task(self._task)

    async def _run(self) -> None:
        while True:
            try:
                await self._listen()
            except (RedisError, OSError):
                self._failures += 1
                _log.debug("the control channel is down; heartbeats carry cancels meanwhile", exc_info=True)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _listen(self) -> None:
        clients = await self._executor.clients()
        async with clients[self._failures % len(clients)].pubsub() as pubsub:
            # The fleet's name may hold characters that a pattern would read as its own.
            await pubsub.psubscribe(_literal(self._prefix) + "*")
            while True:
                message = await pubsub.get_message(ignore_subscribe_messages=True, timeout=None)
                if message is not None:
                    self._heard(message["channel"].decode()[len(self._prefix) :])


def _literal(text: str) -> str:
    return "".join(f"\\{letter}" if letter in "*?[]\\^" else letter for letter in text)
