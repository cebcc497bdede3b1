"""Notices that the run store was away, from how long it took to answer: then leases ran out that nobody could renew.

A server that was cut off or frozen, and did not restart, cannot tell by itself; those who asked it can.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from turnfleet.errors import FleetUnavailable
from turnfleet_worker.people import MILLISECONDS

SLOW_FRACTION: Final = 0.25
"""An answer that took more than this part of a lease came late enough for heartbeats to have been missed."""


class OutageWatch:
    """Says for how long leases are to be left alone: one lease, from the first answer after an outage on.

    `lease_seconds` 0 watches nothing. `clock` gives monotonic seconds.
    """

    def __init__(self, lease_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._lease = lease_seconds
        self._clock = clock
        self._away = False
        self._until = 0.0

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Frame a question to the store; what it raises passes through."""
        asked = self._clock()
        try:
            yield
        except FleetUnavailable:
            self._away = True
            raise
        answered = self._clock()
        if self._away or answered - asked > self._lease * SLOW_FRACTION:
            self._until = answered + self._lease
        self._away = False

    def hold_seconds(self) -> float:
        """How long leases are still left alone."""
        return max(0.0, self._until - self._clock())


class ServerClocks:
    """What each shard's server would say the time is (ms): its last answer, and what has passed since then."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._heard: dict[int, tuple[int, float]] = {}

    def heard(self, shard: int, now_ms: int) -> None:
        """Note what a shard's server said."""
        self._heard[shard] = (now_ms, self._clock())

    def now_ms(self, shard: int) -> int | None:
        """Give the time, or None when the shard has not said it yet."""
        if shard not in self._heard:
            return None
        then, at = self._heard[shard]
        return then + round((self._clock() - at) * MILLISECONDS)
