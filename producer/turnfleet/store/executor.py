"""Runs commands against Redis, with await. `SyncExecutor` is its twin."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any, TypeVar

import redis.asyncio as aredis
from redis.exceptions import RedisError, ResponseError

from turnfleet.errors import StoreError, TurnfleetError
from turnfleet.store import calls
from turnfleet.store.command import Command
from turnfleet.store.listener import AsyncListener, Subscription
from turnfleet.store.place import address, close_async_client, open_async_client
from turnfleet.store.replicas import Replicas
from turnfleet.store.sync import SyncExecutor

__all__ = ["AsyncExecutor", "SyncExecutor"]

T = TypeVar("T")


class AsyncExecutor:
    """Executes commands of one event loop. What is asked for while a call is on its way leaves together next.

    One call is in flight at a time, so commands reach the server in the order in which they were asked for: a run's
    unwaited writes cannot overtake each other. `source` is a URL (`place.py`), or a client (its `decode_responses`
    must be off). Connects on first use. Answers within about `timeout` seconds, or raises `FleetUnavailable`.
    """

    def __init__(self, source: "str | aredis.Redis", *, timeout: float = calls.TIMEOUT_SECONDS) -> None:
        self._owned = isinstance(source, str)
        self._where = address(source) if isinstance(source, str) else "the given client"
        self._client: aredis.Redis = open_async_client(source, timeout) if isinstance(source, str) else source
        self._timeout = timeout
        self._waiting: deque[tuple[Command[Any], asyncio.Future[Any]]] = deque()
        self._sender: asyncio.Task[None] | None = None
        self._plain: bool | None = None
        self._replicas = Replicas()
        self._listener = AsyncListener(self._client)
        self._closed = False

    @property
    def client(self) -> aredis.Redis:
        """The client beneath, for what is no command (a diagnosis, a test)."""
        return self._client

    async def execute(self, command: Command[T]) -> T:
        """Run a command. Raises what its `decode` raises, `FleetUnavailable` and `StoreError`."""
        result = await self._ask(command)
        return calls.read(command, result, self._where)  # type: ignore[no-any-return]

    async def execute_many(self, commands: Sequence[Command[T]]) -> list[T | TurnfleetError]:
        """Run commands in as few calls as possible; an error stands in its command's place, it is not raised."""
        results = await asyncio.gather(*map(self._ask, commands))
        return calls.read_many(commands, results, self._where)

    def subscribe(self, channel: str) -> Subscription:
        """Return an async context manager; what it gives is an async iterator over a channel's messages."""
        return self._listener.subscribe(channel)

    async def aclose(self) -> None:
        """End what is running, and close the connections if this executor made them."""
        self._closed = True
        await self._listener.aclose()
        if self._sender is not None:
            await asyncio.gather(self._sender, return_exceptions=True)
        if self._owned:
            await close_async_client(self._client)

    def _ask(self, command: Command[Any]) -> "asyncio.Future[Any]":
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        if self._closed:
            future.set_exception(StoreError("this executor is closed"))
            return future
        self._waiting.append((command, future))
        if self._sender is None or self._sender.done():
            self._sender = loop.create_task(self._send_all())
        return future

    async def _send_all(self) -> None:
        while self._waiting:
            batch: list[tuple[Command[Any], asyncio.Future[Any]]] = []
            while self._waiting and len(batch) < calls.BATCH:
                command, future = self._waiting.popleft()
                if not future.cancelled():
                    batch.append((command, future))
            try:
                results = await self._send([command for command, _ in batch])
            except BaseException:  # nobody may wait for an answer that cannot come any more
                for _, future in batch + list(self._waiting):
                    future.cancel()
                self._waiting.clear()
                raise
            for (_, future), result in zip(batch, results, strict=True):
                if not future.done():
                    future.set_result(result)

    async def _send(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Give each command's reply, or the exception that came in its place."""
        clock = asyncio.get_running_loop().time
        sending = calls.Sending(commands, clock() + self._timeout)
        while True:
            pause = sending.take(await self._try_once(sending.pending), clock())
            if pause is None:
                return sending.results
            if pause:
                await asyncio.sleep(pause)

    async def _try_once(self, commands: Sequence[Command[Any]]) -> list[Any]:
        try:
            if self._plain is None:
                await self._load()
            words = [calls.evalsha(command, plain=bool(self._plain)) for command in commands]
            behind = self._replicas.words(commands, asyncio.get_running_loop().time())
            replies = await self._pipe([*words, *behind])
            results = replies[: len(words)]
            self._replicas.take(behind, replies[len(words) :], asyncio.get_running_loop().time())
            if calls.unloaded(results):
                self._plain = None
        except (RedisError, OSError) as error:
            return [error] * len(commands)
        return results

    async def _load(self) -> None:
        try:
            await self._client.execute_command("EVAL", calls.PROBE, 0)  # type: ignore[no-untyped-call]
            plain = False
        except ResponseError:
            plain = True
        for result in await self._pipe(calls.loads(plain=plain)):
            if isinstance(result, Exception):
                raise result
        self._plain = plain

    async def _pipe(self, words: Sequence[tuple[Any, ...]]) -> list[Any]:
        async with self._client.pipeline(transaction=False) as pipe:
            for each in words:
                pipe.execute_command(*each)
            return await pipe.execute(raise_on_error=False)
