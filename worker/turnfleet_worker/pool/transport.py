"""kombu's Redis transport, for the consuming connection, with four faults mended and fewer round trips.

An item on a queue's list that is not a message in kombu's format raises out of the hub and ends the worker. The item
was popped already, so the next worker lives; but anybody who can push could so end one worker after another.

A pop that is under way when the worker stops consuming may still win a message, which then lies in the socket until
the connection is closed: as long as the worker drains.

When Redis dies while a message is unacknowledged, kombu tries to put it back through the channel that it has already
taken apart, and the AttributeError ends the worker.

A Redis that is out of memory gives messages out and refuses the note of who has them, which ends the worker, too.

What waits is taken in batches as far as slots are free (`fetching.py`), and acknowledged in batches, once a turn of
the hub (`qos.py`).
"""

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty
from typing import Any, ClassVar, Final

from kombu.transport import redis
from kombu.utils.eventio import READ, poll
from kombu.utils.json import loads
from redis.exceptions import ResponseError

from turnfleet_worker.pool.fetching import MOST_AT_ONCE, Fetcher, Taken
from turnfleet_worker.pool.qos import TolerantQoS

__all__ = ["Batching", "harden"]

# A pop waits at most a second on the server (kombu's brpop_timeout); the rest is for the way.
_REPLY_SECONDS: Final = 2.0

# What reading an item raises that is not a message. Raised before kombu noted the item as delivered: behind that, the
# consumer refuses by itself.
_GARBAGE: Final = (LookupError, TypeError, ValueError, AttributeError)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Batching:
    """What batches need of the worker: how many slots are free, and its hub's `call_soon`."""

    free: Callable[[], int]
    soon: Callable[[Callable[[], object]], object]


def harden(connection: Any, on_garbage: Callable[[str, Exception], None], batching: Batching | None = None) -> Any:
    """Return the connection (not yet connected) with garbage handed to `on_garbage(where, error)` if it is to Redis.

    What it tells of itself holds no password. Without `batching` (there is no hub under `--pool=solo`) messages are
    taken and acknowledged one by one.
    """
    told = connection.info
    # `inspect stats` shows it, and so does Flower: Celery leaves out the login of the URL only.
    connection.info = lambda: _masked(told())
    transport = connection.get_transport_cls()
    if issubclass(transport, redis.Transport):
        soon = None if batching is None else staticmethod(batching.soon)
        qos = type("QoS", (TolerantQoS,), {"soon": soon})
        ours = {"QoS": qos, "on_garbage": staticmethod(on_garbage), "batching": batching}
        channel = type(transport.Channel.__name__, (_TolerantChannel, transport.Channel), ours)
        tolerant = type(transport.__name__, (transport,), {"Channel": channel})
        # Not `transport_cls`: that name is shown by `inspect stats`, and must stay plain text.
        connection.get_transport_cls = lambda: tolerant
        connection.transport_options = {**(connection.transport_options or {}), "ack_emulation": True}
    return connection


def _masked(told: dict[str, Any]) -> dict[str, Any]:
    """Mask the passwords of the options: of sentinels, and of a certificate's key."""
    options = {name: value for name, value in told.items() if name in {"transport_options", "ssl"}}
    return told | {name: _without_passwords(value) for name, value in options.items()}


def _without_passwords(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {
        name: "***" if str(name).endswith("password") and each else _without_passwords(each)
        for name, each in value.items()
    }


# Their type stubs know a part of them only.
_StockChannel: Any = redis.Channel


class _TolerantChannel(_StockChannel):  # type: ignore[misc]
    """Drops what cannot be a message instead of raising into the hub, and leaves no message in the socket.

    Stands in front of kombu's channel, which may be Sentinel's.
    """

    on_garbage: Any
    batching: ClassVar[Batching | None] = None

    _taking_in = False
    _fetcher: Fetcher | None = None
    _fetches = True
    _kept_client: Any = None

    def _create_client(self, asynchronous: bool = False) -> Any:
        """Return the one client of the pool: kombu would make one for each message and each acknowledgement."""
        if asynchronous:
            return super()._create_client(asynchronous=True)
        if self._kept_client is None or self._kept_client.connection_pool is not self.pool:
            self._kept_client = super()._create_client()
        return self._kept_client

    # -- taking messages

    def _brpop_read(self, **options: Any) -> Any:
        try:
            read = super()._brpop_read(**options)
        except _GARBAGE as error:
            self.on_garbage(f"one of the queues {sorted(self.active_queues)}", error)
            read = True
        if not self._taking_in:
            self._take_more()
        return read

    def _take_more(self) -> None:
        """Take what else waits, while there are slots for it."""
        while (most := self._room()) > 0:
            cycle = self._queue_cycle.consume(len(self.active_queues))
            queues = [(queue, step) for step in self.priority_steps for queue in cycle]
            taken = self._fetch([self._q_for_pri(queue, step) for queue, step in queues], most)
            for number, each in enumerate(taken):
                try:
                    self._hand_out(each, queues[each.place][0])
                except BaseException:
                    self._put_back(taken[number + 1 :])
                    raise
            if len(taken) < most:
                return

    def _room(self) -> int:
        if self.batching is None or not self._fetches or not self.active_queues:
            return 0
        allowed = self.qos.can_consume_max_estimate()  # None: as many as one likes
        return min(self.batching.free(), MOST_AT_ONCE, MOST_AT_ONCE if allowed is None else allowed)

    def _fetch(self, lists: list[str], most: int) -> list[Taken]:
        prefix = self.global_keyprefix or ""
        if self._fetcher is None:
            self._fetcher = Fetcher(self.pool)
        try:
            return self._fetcher.take(
                prefix + self.unacked_key,
                prefix + self.unacked_index_key,
                [prefix + each for each in lists],
                most=most,
                now=time.time(),
            )
        except ResponseError as error:
            # No scripts for this user, or none on this server: kombu's way, one by one, does as well.
            _log.warning("messages are taken one by one: the broker refused a script (%s)", type(error).__name__)
            self._fetches = False
            return []

    def _hand_out(self, taken: Taken, queue: str) -> None:
        try:
            payload = loads(taken.item.decode())
            if taken.tag is not None:
                self.qos.noted(taken.tag)
            self.connection._deliver(payload, queue)  # noqa: SLF001 - what kombu's own pop does with an item
        except _GARBAGE as error:
            self.on_garbage(f"the queue {queue!r}", error)
            if taken.tag is not None:
                self.qos.forget(taken.tag)

    def _put_back(self, rest: list[Taken]) -> None:
        for taken in rest:
            if taken.tag is not None:
                with suppress(Exception):  # the broker then delivers it again after the visibility timeout
                    self.qos.restore_by_tag(taken.tag)

    # -- leaving

    def close(self) -> None:
        """Close, with the acknowledgements told."""
        self.qos.settle()
        super().close()

    def basic_cancel(self, consumer_tag: str) -> Any:
        """Cancel; with the last queue, take in the reply under way: nobody consumes it, so kombu puts it back."""
        result = super().basic_cancel(consumer_tag)
        # Celery's cold shutdown cancels in a signal handler, perhaps while this very wait is interrupted by it:
        # two readers of one reply would leave one of them waiting.
        if not self.active_queues and not self._taking_in:
            self._taking_in = True
            try:
                self._take_in_reply()
            finally:
                self._taking_in = False
        return result

    def _take_in_reply(self) -> None:
        sock = getattr(self._in_poll, "_sock", None) if self._in_poll else None
        if sock is None:
            return
        poller = poll()
        try:
            poller.register(sock, READ)
            if poller.poll(_REPLY_SECONDS):
                with suppress(Empty):
                    self._brpop_read()
        finally:
            poller.close()
