"""Publishes offers from the event loop: the broker client blocks, so it works in a thread of its own."""

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from turnfleet.errors import FleetUnavailable
from turnfleet.store.records import Offer
from turnfleet.wire.envelope import reoffer
from turnfleet.wire.publish import Publisher

_log = logging.getLogger(__name__)


class Offers:
    """The worker's way to the broker. An offer that cannot be published is left to a later sweep."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="turnfleet-offers")

    async def publish(self, offers: Sequence[Offer]) -> None:
        """Publish offers, in order."""
        if not offers:
            return
        messages = [(offer, reoffer(self._publisher.fleet, offer)) for offer in offers]
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._publisher.publish_many, messages)
        except FleetUnavailable as error:
            _log.warning("%d offers wait for the next sweep: %s", len(offers), error)

    def close(self) -> None:
        """Close the connections once what is under way is done."""
        self._thread.submit(self._publisher.close)
        self._thread.shutdown(wait=False)
