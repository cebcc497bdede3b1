"""The sync driver: performs a client's steps on sockets, in the caller's thread, with no thread of its own."""

import os
from collections.abc import Callable, Generator
from contextlib import ExitStack
from functools import partial
from typing import Any, TypeVar, assert_never

from turnfleet.client.follow import Following, FollowingStep
from turnfleet.client.steps import Emit, Execute, ExecuteMany, Flow, Listen, Now, Publish, Step
from turnfleet.errors import FleetUnavailable, TurnfleetError
from turnfleet.store import Keys
from turnfleet.store.commands import clock
from turnfleet.store.executor import SyncExecutor
from turnfleet.store.listener import LOOK, SyncSubscription
from turnfleet.store.place import address
from turnfleet.wire import Publisher

T = TypeVar("T")


class Line:
    """A client's way to its Redis and its broker; opened on first use, safe to share between threads."""

    def __init__(self, url: str, broker_url: str, keys: Keys, timeout: float) -> None:
        self._where = (url, broker_url, timeout)
        self._keys = keys
        self._reopen()

    def __repr__(self) -> str:
        return f"{self._keys.fleet} at {address(self._where[0])}"

    def _reopen(self) -> None:
        url, broker_url, timeout = self._where
        self._redis = SyncExecutor(url, timeout=timeout)
        self._broker = Publisher(broker_url, self._keys.fleet, timeout=timeout, key_prefix=self._keys.key_prefix)
        # Last: by it other threads know that what is above is this process's.
        self._pid = os.getpid()

    @property
    def _executor(self) -> SyncExecutor:
        if self._pid != os.getpid():
            # After a fork: a socket shared with the parent would mix both processes' replies.
            self._reopen()
        return self._redis

    def perform(self, flow: Flow[T]) -> T:
        """Perform a flow to its end; give what it returns, raise what it raises."""
        try:
            step = next(flow)
            while True:
                try:
                    reply = self._do(step)
                except TurnfleetError as error:
                    step = flow.throw(error)
                else:
                    step = flow.send(reply)
        except StopIteration as stop:
            result: T = stop.value
            return result

    def follow(self, channel: str, following: Following[T]) -> Generator[T, None, None]:
        """Perform a reader's steps, giving what it emits. The subscription lives only as long as this iterator."""
        with ExitStack() as stack:
            subscription: SyncSubscription | None = None
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
                        if subscription is None:
                            subscription = stack.enter_context(self._executor.subscribe(channel))
                        heard = subscription.get(timeout)
                        reply = None if heard is LOOK else heard
                    case Execute(command=command):
                        try:
                            reply = self._executor.execute(command)
                        except FleetUnavailable as error:
                            advance = partial(following.throw, error)
                            continue
                    case _:
                        assert_never(step)
                advance = partial(following.send, reply)

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        if self._pid == os.getpid():
            self._redis.close()
            self._broker.close()

    def _do(self, step: Step) -> Any:
        match step:
            case Execute(command=command):
                return self._executor.execute(command)
            case ExecuteMany(commands=commands):
                return self._executor.execute_many(commands)
            case Publish(messages=messages):
                return self._broker.publish_many(messages)
            case Now():
                return self._executor.execute(clock(self._keys))
            case _:
                assert_never(step)
