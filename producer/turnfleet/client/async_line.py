"""The async driver: performs a client's steps with await. Only publishing takes a thread: Celery blocks."""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Self, TypeVar, assert_never

from turnfleet.client.follow import Following, FollowingStep
from turnfleet.client.steps import Emit, Execute, ExecuteMany, Flow, Listen, Message, Now, Publish, Step
from turnfleet.errors import FleetUnavailable, TurnfleetError, WrongEventLoop
from turnfleet.store import Keys
from turnfleet.store.commands import clock
from turnfleet.store.executor import AsyncExecutor
from turnfleet.store.listener import LOOK, Heard, Subscription
from turnfleet.store.place import address
from turnfleet.wire import Publisher

T = TypeVar("T")


class AsyncLine:
    """A client's way to its Redis and its broker; opened on first use, on the event loop that it then belongs to."""

    def __init__(self, url: str, broker_url: str, keys: Keys, timeout: float) -> None:
        self._url, self._timeout = url, timeout
        self._keys = keys
        self._loop: asyncio.AbstractEventLoop | None = None
        self._redis: AsyncExecutor | None = None
        self._broker = Publisher(broker_url, keys.fleet, timeout=timeout, key_prefix=keys.key_prefix)
        self._pid = os.getpid()
        self._inherited: list[AsyncExecutor | None] = []

    def __repr__(self) -> str:
        return f"{self._keys.fleet} at {address(self._url)}"

    @property
    def _executor(self) -> AsyncExecutor:
        loop = asyncio.get_running_loop()
        if self._pid != os.getpid():
            # After a fork: a socket shared with the parent would mix both processes' replies. The parent's client is
            # kept, not dropped: to be collected, it would take its sockets from the loop's epoll, which is shared, too.
            self._inherited.append(self._redis)
            self._redis, self._loop, self._pid = None, None, os.getpid()
        if self._loop is None:
            self._loop = loop
        if self._loop is not loop:
            raise WrongEventLoop(
                f"this AsyncFleet of fleet {self._keys.fleet!r} belongs to the event loop that first used it: "
                "make one in each loop"
            )
        if self._redis is None:
            self._redis = self._open()
        return self._redis

    async def perform(self, flow: Flow[T]) -> T:
        """Perform a flow to its end; give what it returns, raise what it raises."""
        try:
            step = next(flow)
            while True:
                try:
                    reply = await self._do(step)
                except TurnfleetError as error:
                    step = flow.throw(error)
                else:
                    step = flow.send(reply)
        except StopIteration as stop:
            result: T = stop.value
            return result

    async def follow(self, channel: str, following: Following[T]) -> AsyncGenerator[T, None]:
        """Perform a reader's steps, giving what it emits. The subscription lives only as long as this iterator."""
        async with AsyncExitStack() as stack:
            ear: _Ear | None = None
            advance: Callable[[], FollowingStep[T]] = partial(next, following)
            while True:
                try:
                    step = advance()
                except StopIteration:
                    return
                reply: Any = None
                match step:
                    case Emit(value=value):
                        yield value
                    case Listen(timeout=timeout):
                        if ear is None or ear.executor is not self._executor:  # else: closed meanwhile, or forked
                            ear = await stack.enter_async_context(_Ear(self._executor, channel))
                        heard = await ear.hear(timeout)
                        reply = None if heard is LOOK else heard
                    case Execute(command=command):
                        try:
                            reply = await self._executor.execute(command)
                        except FleetUnavailable as error:
                            advance = partial(following.throw, error)
                            continue
                    case _:
                        assert_never(step)
                advance = partial(following.send, reply)

    async def aclose(self) -> None:
        """Close the connections; a later call opens new ones."""
        redis, self._redis, self._loop = self._redis, None, None
        if redis is not None and self._pid == os.getpid():
            await redis.aclose()
        await self._close_broker()

    # Where the sockets are: the testing kit has its own of these three.

    def _open(self) -> AsyncExecutor:
        return AsyncExecutor(self._url, timeout=self._timeout)

    async def _publish(self, messages: Sequence[Message]) -> None:
        await asyncio.to_thread(self._broker.publish_many, messages)

    async def _close_broker(self) -> None:
        await asyncio.to_thread(self._broker.close)

    async def _do(self, step: Step) -> Any:
        match step:
            case Execute(command=command):
                return await self._executor.execute(command)
            case ExecuteMany(commands=commands):
                return await self._executor.execute_many(commands)
            case Publish(messages=messages):
                return await self._publish(messages)
            case Now():
                return await self._executor.execute(clock(self._keys))
            case _:
                assert_never(step)


class _Ear:
    """A subscription that can be listened to for a while, and again: a wait that ends early loses no message."""

    def __init__(self, executor: AsyncExecutor, channel: str) -> None:
        self.executor = executor
        self._subscription: Subscription = executor.subscribe(channel)
        self._loop = asyncio.get_running_loop()
        self._messages: AsyncIterator[Heard] | None = None
        self._next: asyncio.Task[Heard] | None = None

    async def __aenter__(self) -> Self:
        self._messages = await self._subscription.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._loop is not asyncio.get_running_loop():
            return  # a parent's, inherited by a fork
        try:
            if self._next is not None:
                self._next.cancel()
                await asyncio.wait({self._next})
        finally:
            # Whoever cancels a reader may cancel it again while it leaves: the subscription ends all the same.
            await self._subscription.__aexit__(None, None, None)

    async def hear(self, seconds: float) -> Heard | None:
        """Give what is heard next, or None after so many seconds."""
        if self._next is None:
            self._next = asyncio.ensure_future(self._hear())
        done, _ = await asyncio.wait({self._next}, timeout=seconds)
        if not done:
            return None
        heard, self._next = self._next, None
        return heard.result()

    async def _hear(self) -> Heard:
        assert self._messages is not None
        # When the client is closed meanwhile there is nothing left to hear: look, and find it closed.
        return await anext(self._messages, LOOK)
