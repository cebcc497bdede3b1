"""Hears what is published, and says when something may have been missed.

A subscriber gets a channel's messages as bytes, and `LOOK` whenever it must read the log itself: when its subscription
has taken effect, when the connection was made anew, and when it was too slow for its buffer. Nobody slows anybody.
"""

import asyncio
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextvars import Context
from enum import Enum
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeAlias

import redis
import redis.asyncio as aredis
from redis.exceptions import RedisError

from turnfleet.store.cancelling import end_task

BUFFER: Final = 1_000
"""Messages that a subscriber may lag behind before it is told to look at the log instead."""

_SUBSCRIBED = frozenset({"subscribe", "ssubscribe"})
_MESSAGES = frozenset({"message", "smessage"})
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0  # seconds between attempts to connect anew


class Notice(Enum):
    """What a subscriber hears besides messages."""

    LOOK = "look"


LOOK: Final = Notice.LOOK
Heard: TypeAlias = bytes | Notice


class Listener(Protocol):
    """What has subscriptions."""

    def add(self, subscription: "Subscription") -> None:
        """Begin a subscription."""

    async def remove(self, subscription: "Subscription") -> None:
        """End it."""


class Subscription:
    """One subscriber of one channel: an async context manager that gives an async iterator (itself).

    Waiting for the next message may be cancelled, and begun again, without losing one.
    """

    def __init__(self, listener: "Listener", channel: str) -> None:
        self.channel = channel.encode()
        self._listener = listener
        self._heard: deque[Heard] = deque()
        self._news = asyncio.Event()
        self._over = False

    async def __aenter__(self) -> AsyncIterator[Heard]:
        """Subscribe; the first thing heard is `LOOK`, once nothing published from then on can be missed."""
        self._listener.add(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Unsubscribe. Other subscribers of the channel notice nothing."""
        self.end()
        await self._listener.remove(self)

    def __aiter__(self) -> AsyncIterator[Heard]:
        return self

    async def __anext__(self) -> Heard:
        while not self._heard:
            if self._over:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        return self._heard.popleft()

    def tell(self, heard: Heard) -> None:
        """Take a message; when there are too many, forget them all and remember that something was missed."""
        if len(self._heard) >= BUFFER:
            self._heard.clear()
            heard = LOOK
        self._heard.append(heard)
        self._news.set()

    def end(self) -> None:
        """Let the iterator end after what it has heard."""
        self._over = True
        self._news.set()


class AsyncListener:
    """All subscriptions of one executor, over one connection, which exists only while somebody is subscribed.

    One task owns the connection: it alone sends and reads, and connects anew when the connection is lost. With `lost`
    the server is a node of a cluster: channels are sharded, and `lost` is called whenever they may be another node's.
    """

    def __init__(self, client: aredis.Redis, lost: Callable[[], None] | None = None) -> None:
        self._client = client
        self._lost = lost
        self._subscribers: dict[bytes, list[Subscription]] = {}
        self._confirmed: set[bytes] = set()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def subscribe(self, channel: str) -> Subscription:
        """Return a subscription that has not begun."""
        return Subscription(self, channel)

    def add(self, subscription: Subscription) -> None:
        """Begin a subscription."""
        self._subscribers.setdefault(subscription.channel, []).append(subscription)
        if subscription.channel in self._confirmed:
            subscription.tell(LOOK)
        self._changed.set()
        if self._task is None or self._task.done():
            # In an empty context: it listens for everybody, not for whoever came first.
            self._task = asyncio.get_running_loop().create_task(self._run(), context=Context())

    async def remove(self, subscription: Subscription) -> None:
        """End a subscription; with the last one, the connection."""
        subscribers = self._subscribers.get(subscription.channel, [])
        if subscription in subscribers:
            subscribers.remove(subscription)
            if not subscribers:
                del self._subscribers[subscription.channel]
        self._changed.set()
        if not self._subscribers:
            await self._stop()

    async def aclose(self) -> None:
        """End every subscription."""
        for subscribers in self._subscribers.values():
            for subscription in subscribers:
                subscription.end()
        self._subscribers.clear()
        await self._stop()

    async def _stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            await end_task(task)

    async def _run(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            pubsub, confirmed = self._client.pubsub(), set[bytes]()
            self._confirmed = confirmed  # of this connection: what an earlier one still clears is not ours
            try:
                await self._serve(pubsub)
            except (RedisError, OSError):
                if self._lost is not None:
                    self._lost()
                pause = _FIRST_PAUSE if confirmed else min(pause * 2, _LONGEST_PAUSE)
            finally:
                confirmed.clear()
                await pubsub.aclose()  # type: ignore[no-untyped-call]
            await asyncio.sleep(pause)

    async def _serve(self, pubsub: "aredis.client.PubSub") -> None:
        """Keep what is subscribed equal to what is wanted, and hand out what comes."""
        asked: set[bytes] = set()
        reading: asyncio.Task[Any] | None = None
        changed = asyncio.ensure_future(self._changed.wait())
        try:
            while True:
                self._changed.clear()
                wanted = set(self._subscribers)
                if wanted - asked:
                    await (pubsub.ssubscribe if self._lost else pubsub.subscribe)(*sorted(wanted - asked))
                if asked - wanted:
                    self._confirmed -= asked - wanted
                    await (pubsub.sunsubscribe if self._lost else pubsub.unsubscribe)(*sorted(asked - wanted))
                asked = wanted
                if reading is None:
                    reading = asyncio.ensure_future(pubsub.get_message(timeout=None))
                if changed.done():
                    changed = asyncio.ensure_future(self._changed.wait())
                await asyncio.wait({reading, changed}, return_when=asyncio.FIRST_COMPLETED)
                if reading.done():
                    message, reading = reading.result(), None
                    self._hand_out(message)
        finally:
            for task in (reading, changed):
                if task is not None:
                    task.cancel()
            await asyncio.gather(*(task for task in (reading, changed) if task is not None), return_exceptions=True)

    def _hand_out(self, message: dict[str, Any] | None) -> None:
        if message is None:
            return
        channel = message["channel"]
        if message["type"] in _SUBSCRIBED:
            self._confirmed.add(channel)
            heard: Heard = LOOK
        elif message["type"] in _MESSAGES:
            heard = message["data"]
        else:
            if channel in self._confirmed:
                raise ConnectionError("the channel's slot has left this node")
            return
        for subscription in self._subscribers.get(channel, ()):
            subscription.tell(heard)


class SyncSubscription:
    """One subscriber of one channel on a connection of its own: a context manager with `get`.

    `connect` gives the client of the server that has the channel; `lost` is as for `AsyncListener`.

    After a fork, parent and child may both go on with it: the child subscribes anew.
    """

    def __init__(
        self, connect: Callable[[], redis.Redis], channel: str, *, lost: Callable[[], None] | None = None
    ) -> None:
        self._connect = connect
        self._lost = lost
        self._channel = channel
        self._pubsub: redis.client.PubSub | None = None
        self._pid = os.getpid()

    def __enter__(self) -> Self:
        """Begin with the first `get`: what is heard first is `LOOK`, once nothing published later can be missed."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Unsubscribe and close the connection."""
        self._drop()

    def get(self, timeout: float) -> Heard | None:
        """Return what is heard next, or None after `timeout` seconds. A lost connection is made anew meanwhile."""
        limit = time.monotonic() + timeout
        while True:
            left = limit - time.monotonic()
            try:
                message = self._listen().get_message(timeout=max(0.0, left))
                if message is not None and message["type"] == "sunsubscribe":
                    raise ConnectionError("the channel's slot has left this node")
            except (RedisError, OSError):
                self._drop()
                if self._lost is not None:
                    self._lost()
                message = None
                time.sleep(max(0.0, min(_FIRST_PAUSE, left)))
            if message is not None and message["type"] in _MESSAGES:
                return bytes(message["data"])
            if message is not None and message["type"] in _SUBSCRIBED:
                return LOOK
            if time.monotonic() >= limit:
                return None

    def _listen(self) -> "redis.client.PubSub":
        if self._pid != os.getpid():
            # Each message on a socket that both processes read would reach one of them.
            self._drop()
        if self._pubsub is None:
            self._pid = os.getpid()
            self._pubsub = self._connect().pubsub()  # type: ignore[no-untyped-call]
            (self._pubsub.ssubscribe if self._lost else self._pubsub.subscribe)(self._channel)
        return self._pubsub

    def _drop(self) -> None:
        pubsub, self._pubsub = self._pubsub, None
        if pubsub is not None:
            pubsub.close()
