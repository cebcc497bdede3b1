"""The broker, seen from the event loop: kombu blocks, so it works in a thread of its own."""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from kombu.exceptions import KombuError
from redis.exceptions import RedisError

from turnfleet.errors import FleetUnavailable
from turnfleet.store.records import Offer
from turnfleet.wire.publish import Publisher
from turnfleet_worker.backlog import Backlog, Lane

_log = logging.getLogger(__name__)


class Offers(Protocol):
    """The worker's way to the broker. An offer that cannot be published is left to a later sweep."""

    async def publish(self, offers: Sequence[Offer]) -> None:
        """Publish offers, in order."""

    async def oldest(self, queues: Iterable[str]) -> dict[Lane, str] | None:
        """Give the run of the oldest message that waits in each lane; None when the broker does not answer.

        Nothing where it cannot be looked into: the growing pauses between offers alone bound the duplicates there.
        """

    def close(self) -> None:
        """Close the connections once what is under way is done."""


class BrokerOffers(Offers):
    """Offers on a Celery broker."""

    def __init__(self, publisher: Publisher, backlog: Backlog) -> None:
        self._publisher = publisher
        self._backlog = backlog
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="turnfleet-offers")
        self._away = False

    async def publish(self, offers: Sequence[Offer]) -> None:
        """Publish offers, in order."""
        if not offers:
            return
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._publisher.publish_offers, offers)
        except FleetUnavailable as error:
            _log.warning("%d offers wait for the next sweep: %s", len(offers), error)

    async def oldest(self, queues: Iterable[str]) -> dict[Lane, str] | None:
        """Give the run of the oldest message that waits in each lane; None when the broker does not answer."""
        try:
            oldest = await asyncio.get_running_loop().run_in_executor(self._thread, self._backlog.oldest, [*queues])
        except (KombuError, RedisError, OSError) as error:
            if not self._away:
                _log.warning("the broker cannot be looked into until it answers again: %s", type(error).__name__)
            self._away = True
            return None
        self._away = False
        return oldest

    def close(self) -> None:
        """Close the connections once what is under way is done."""
        self._thread.submit(self._publisher.close)
        self._thread.shutdown(wait=False)
