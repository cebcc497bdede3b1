"""The broker of a local fleet: a list of JSON messages, and what brokers do to messages now and then."""

import heapq
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from turnfleet.client.steps import Message
from turnfleet.store.records import Offer
from turnfleet.wire.envelope import reoffer
from turnfleet.wire.publish import task_id
from turnfleet_worker.backlog import Lane
from turnfleet_worker.offers import Offers


@dataclass(frozen=True, slots=True)
class Letter:
    """One message as it travels: its body is JSON text."""

    task_id: str
    run_id: str
    queue: str
    priority: int
    body: str
    redelivered: bool = False


class LocalBroker:
    """Holds messages until a worker takes them, the most urgent first, then the oldest. `news` is called for each."""

    def __init__(self) -> None:
        self.lose = 0
        """How many of the next messages never arrive."""
        self.duplicate = 0
        """How many of the next messages arrive twice."""
        self.news: Callable[[], None] = lambda: None
        self._waiting: list[tuple[int, int, Letter]] = []
        """A heap: urgency, place in the line, message."""
        self._last = self._first = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def publish(self, messages: Sequence[Message]) -> None:
        """Take messages, in order; each is lost or doubled if that was asked for."""
        for offer, envelope in messages:
            if self.lose:
                self.lose -= 1
                continue
            letter = Letter(
                task_id(offer.run_id, offer.number),
                offer.run_id,
                offer.queue,
                offer.priority,
                json.dumps(envelope.to_json()),
            )
            copies = 2 if self.duplicate else 1
            self.duplicate -= copies - 1
            for _ in range(copies):
                self._last += 1
                heapq.heappush(self._waiting, (-letter.priority, self._last, letter))
        self.news()

    def holds(self, run_id: str) -> bool:
        """Say whether a message about this run waits."""
        return any(letter.run_id == run_id for _, _, letter in self._waiting)

    def take(self) -> Letter | None:
        """Give the next message, or None."""
        return heapq.heappop(self._waiting)[-1] if self._waiting else None

    def give_back(self, letter: Letter) -> None:
        """Put a message back, in front, that nobody acknowledged."""
        self._first -= 1
        heapq.heappush(self._waiting, (-letter.priority, self._first, replace(letter, redelivered=True)))
        self.news()

    def oldest(self, queues: Iterable[str]) -> dict[Lane, str]:
        """Give the run of the oldest message in each lane."""
        wanted, lanes = set(queues), dict[Lane, str]()
        for _, _, letter in sorted(self._waiting, key=lambda each: each[1]):
            if letter.queue in wanted:
                lanes.setdefault((letter.queue, letter.priority), letter.run_id)
        return lanes


class LocalOffers(Offers):
    """A worker's way to the local broker."""

    def __init__(self, broker: LocalBroker, fleet: str) -> None:
        self._broker = broker
        self._fleet = fleet

    async def publish(self, offers: Sequence[Offer]) -> None:
        """Publish offers, in order."""
        self._broker.publish([(offer, reoffer(self._fleet, offer)) for offer in offers])

    async def oldest(self, queues: Iterable[str]) -> dict[Lane, str]:
        """Give the run of the oldest message that waits in each lane."""
        return self._broker.oldest(queues)

    def close(self) -> None:
        """Do nothing: there is no connection."""
