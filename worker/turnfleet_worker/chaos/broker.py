"""Faults at the broker: messages that come several times, and messages that never come."""

import json
from collections.abc import Sequence
from typing import Any, Final, cast

import redis
from kombu.transport import redis as redis_transport

from turnfleet.store import Keys, commands
from turnfleet.store.executor import SyncExecutor
from turnfleet.store.records import Offer
from turnfleet.wire.broker import HIGHEST_PRIORITY, default_queue
from turnfleet.wire.envelope import reoffer
from turnfleet.wire.publish import Publisher
from turnfleet_kernel.errors import TurnfleetError

COPIES: Final = 5
STEAL_SECONDS: Final = 1.0
MOST_STOLEN: Final = 8
GLANCE_SECONDS: Final = 0.2

_Channel: Any = redis_transport.Channel


class Broker:
    """The broker of one fleet, seen by somebody who means no good."""

    def __init__(self, url: str, fleet: str) -> None:
        self._url = url
        self._fleet = fleet
        self._keys = Keys(fleet)
        queue = default_queue(fleet)
        self._lanes = [queue if not step else f"{queue}{_Channel.sep}{step}" for step in range(HIGHEST_PRIORITY + 1)]

    def duplicate(self, run_ids: Sequence[str]) -> int:
        """Publish the latest message of each run `COPIES` times more; return how many messages that were.

        Raises `FleetUnavailable` when the broker does not answer.
        """
        executor, publisher = SyncExecutor(self._url), Publisher(self._url, self._fleet)
        try:
            offers = [offer for run_id in run_ids if (offer := self._latest(executor, run_id)) is not None]
            publisher.publish_many([(offer, reoffer(self._fleet, offer)) for offer in offers for _ in range(COPIES)])
            return len(offers) * COPIES
        finally:
            publisher.close()
            executor.close()

    def _latest(self, executor: SyncExecutor, run_id: str) -> Offer | None:
        try:
            run = executor.execute(commands.status(self._keys, run_id))
        except TurnfleetError:
            return None
        return Offer(
            run_id=run_id,
            number=max(1, run.offers),
            queue=run.queue,
            priority=run.priority,
            thread_id=run.thread_id,
            plan_id=run.plan_id,
            digest=run.digest,
            plan_name=run.plan_name,
        )

    def steal(self) -> list[str]:
        """Take messages that wait, and those that come, away from the workers for a second; return their runs.

        Raises what redis raises.
        """
        stolen: list[str] = []
        with redis.Redis.from_url(self._url, socket_timeout=STEAL_SECONDS * 2) as client:
            for _ in range(round(STEAL_SECONDS / GLANCE_SECONDS)):
                found = cast("Any", client.brpop(self._lanes, timeout=GLANCE_SECONDS))
                if found is not None:
                    stolen.append(str(json.loads(found[1])["headers"]["root_id"]))
                if len(stolen) >= MOST_STOLEN:
                    break
        return stolen
