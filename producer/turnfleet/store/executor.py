"""Runs commands against Redis, with await. `SyncExecutor` is its twin."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from typing import Any, TypeAlias, TypeVar

import redis.asyncio as aredis

from turnfleet.errors import StoreError, TurnfleetError
from turnfleet.store import calls
from turnfleet.store.cluster import AsyncCluster
from turnfleet.store.cluster_listener import ClusterListener
from turnfleet.store.command import Command
from turnfleet.store.listener import AsyncListener, Subscription
from turnfleet.store.place import address, close_async_client, cluster_place, open_async_client
from turnfleet.store.server import AsyncServer
from turnfleet.store.sync import SyncExecutor

__all__ = ["AsyncExecutor", "SyncExecutor"]

T = TypeVar("T")
Run: TypeAlias = Callable[[Sequence[Command[Any]]], Awaitable[list[Any]]]


class AsyncExecutor:
    """Executes commands of one event loop. What is asked for while a call is on its way leaves together next.

    One call is in flight at a time (on a cluster: one for each shard), so commands reach the server in the order in
    which they were asked for: a run's unwaited writes cannot overtake each other. `source` is a URL (`place.py`), or a
    client (its `decode_responses` must be off). Connects on first use. Answers within about `timeout` seconds, or
    raises `FleetUnavailable`.
    """

    def __init__(self, source: "str | aredis.Redis", *, timeout: float = calls.TIMEOUT_SECONDS) -> None:
        place = cluster_place(source) if isinstance(source, str) else None
        self._where = address(source) if isinstance(source, str) else "the given client"
        self._timeout = timeout
        self._cluster = None if place is None else AsyncCluster(place, timeout)
        self._server: AsyncServer | None = None
        self._owned = isinstance(source, str)
        self._listener: AsyncListener | ClusterListener
        if self._cluster is None:
            self._server = AsyncServer(open_async_client(source, timeout) if isinstance(source, str) else source)
            self._listener = AsyncListener(self._server.client)
        else:
            self._listener = ClusterListener(self._cluster)
        self._lanes: dict[str, _Lane] = {}
        self._closed = False

    @property
    def client(self) -> aredis.Redis:
        """The client beneath, for what is no command (a diagnosis, a test). Raises `StoreError` for a cluster's."""
        if self._server is None:
            raise StoreError("a cluster has no single client: see clients()")
        return self._server.client

    async def clients(self) -> tuple[aredis.Redis, ...]:
        """Return a client of the server, or of each of a cluster's masters. Raises what redis raises."""
        return (self.client,) if self._cluster is None else await self._cluster.clients()

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
        for lane in self._lanes.values():
            await lane.ended()
        if self._cluster is not None:
            await self._cluster.aclose()
        elif self._owned:
            await close_async_client(self.client)

    def _ask(self, command: Command[Any]) -> "asyncio.Future[Any]":
        if self._closed:
            future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            future.set_exception(StoreError("this executor is closed"))
            return future
        name = "" if self._cluster is None else command.key
        lane = self._lanes.get(name)
        if lane is None:
            run = self._server.run if self._server is not None else self._cluster.run  # type: ignore[union-attr]
            lane = self._lanes[name] = _Lane(run, self._timeout)
        return lane.ask(command)


class _Lane:
    """Commands that must not overtake each other."""

    def __init__(self, run: Run, timeout: float) -> None:
        self._run = run
        self._timeout = timeout
        self._waiting: deque[tuple[Command[Any], asyncio.Future[Any]]] = deque()
        self._sender: asyncio.Task[None] | None = None

    def ask(self, command: Command[Any]) -> "asyncio.Future[Any]":
        """Give the future reply, or the exception that comes in its place as a value."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._waiting.append((command, future))
        if self._sender is None or self._sender.done():
            # It sends for everybody: what is bound to the context of whoever came first is not its own.
            self._sender = loop.create_task(self._send_all(), context=Context())
        return future

    async def ended(self) -> None:
        """Wait until everything that was asked for is answered."""
        if self._sender is not None:
            await asyncio.gather(self._sender, return_exceptions=True)

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
            pause = sending.take(await self._run(sending.pending), clock())
            if pause is None:
                return sending.results
            if pause:
                await asyncio.sleep(pause)
