"""Says that this worker is alive and what it can run, as long as both are true (DESIGN 5, "Version")."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from turnfleet.errors import FleetUnavailable
from turnfleet.store import Keys, commands
from turnfleet.store.executor import AsyncExecutor
from turnfleet_worker.people import MILLISECONDS

_log = logging.getLogger(__name__)


class Announcer:
    """Renews the announcement every `every_seconds`; it lives for `ttl_ms`, so a killed worker is soon forgotten."""

    def __init__(
        self,
        executor: AsyncExecutor,
        keys: Keys,
        worker: str,
        *,
        every_seconds: float,
        ttl_ms: int,
        body: Callable[[], Mapping[str, Any]],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._executor = executor
        self._keys = keys
        self._worker = worker
        self._every = every_seconds
        self._ttl_ms = ttl_ms
        self._body = body
        self._clock = clock
        self._read: Mapping[str, float] | None = None

    async def announce(self) -> None:
        """Announce once, with how far this clock is off; the first time that has to be asked for first.

        Raises `FleetUnavailable`.
        """
        if self._read is None:
            await self._say()
        await self._say()

    async def _say(self) -> None:
        """Announce, and read this clock beside the server's.

        `offset_ms` is how far ahead it is, give or take half the time that the answer took (`within_ms`).
        """
        body = {**self._body(), "clock": self._read}
        asked = self._clock()
        server_ms = await self._executor.execute(commands.announce(self._keys, self._worker, body, self._ttl_ms))
        answered = self._clock()
        half_ms = (answered - asked) * MILLISECONDS / 2
        offset_ms = asked * MILLISECONDS + half_ms - server_ms
        self._read = {"offset_ms": round(offset_ms, 1), "within_ms": round(half_ms, 1)}

    async def run(self) -> None:
        """Announce until cancelled."""
        while True:
            await asyncio.sleep(self._every)
            try:
                await self.announce()
            except FleetUnavailable as error:
                _log.warning("not announced: %s", error)

    async def retract(self) -> None:
        """Take the announcement back; a store that is away forgets it by itself."""
        try:
            await self._executor.execute(commands.retract(self._keys, self._worker))
        except FleetUnavailable:
            _log.debug("the announcement is left to expire")
