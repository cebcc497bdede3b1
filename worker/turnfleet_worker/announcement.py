"""Says that this worker is alive and what it can run, as long as both are true (DESIGN 5, "Version")."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from turnfleet.errors import FleetUnavailable
from turnfleet.store import Keys, commands
from turnfleet.store.executor import AsyncExecutor

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
    ) -> None:
        self._executor = executor
        self._keys = keys
        self._worker = worker
        self._every = every_seconds
        self._ttl_ms = ttl_ms
        self._body = body

    async def announce(self) -> None:
        """Announce once. Raises `FleetUnavailable`."""
        await self._executor.execute(commands.announce(self._keys, self._worker, self._body(), self._ttl_ms))

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
