"""Runs commands against Redis, without await. `AsyncExecutor` is its twin."""

import time
from collections.abc import Sequence
from typing import Any, TypeVar

import redis

from turnfleet.errors import StoreError, TurnfleetError
from turnfleet.store import calls
from turnfleet.store.cluster import SyncCluster
from turnfleet.store.command import Command
from turnfleet.store.listener import SyncSubscription
from turnfleet.store.place import address, close_client, cluster_place, open_client
from turnfleet.store.server import SyncServer

T = TypeVar("T")


class SyncExecutor:
    """Executes commands; safe to share between threads, not across a fork.

    `source` is a URL (`place.py`), or a client (its `decode_responses` must be off). Connects on first use. Answers
    within about `timeout` seconds, or raises `FleetUnavailable`.
    """

    def __init__(self, source: "str | redis.Redis", *, timeout: float = calls.TIMEOUT_SECONDS) -> None:
        place = cluster_place(source) if isinstance(source, str) else None
        self._owned = isinstance(source, str)
        self._where = address(source) if isinstance(source, str) else "the given client"
        self._timeout = timeout
        self._cluster = None if place is None else SyncCluster(place, timeout)
        self._server: SyncServer | None = None
        if self._cluster is None:
            self._server = SyncServer(open_client(source, timeout) if isinstance(source, str) else source)

    @property
    def client(self) -> redis.Redis:
        """The client beneath, for what is no command (a diagnosis, a test). Raises `StoreError` for a cluster's."""
        if self._server is None:
            raise StoreError("a cluster has no single client: see clients()")
        return self._server.client

    def clients(self) -> tuple[redis.Redis, ...]:
        """Return a client of the server, or of each of a cluster's masters. Raises what redis raises."""
        return (self.client,) if self._cluster is None else self._cluster.clients()

    def execute(self, command: Command[T]) -> T:
        """Run a command. Raises what its `decode` raises, `FleetUnavailable` and `StoreError`."""
        (result,) = self._send([command])
        return calls.read(command, result, self._where)  # type: ignore[no-any-return]

    def execute_many(self, commands: Sequence[Command[T]]) -> list[T | TurnfleetError]:
        """Run commands in as few calls as possible; an error stands in its command's place, it is not raised."""
        results: list[Any] = []
        for start in range(0, len(commands), calls.BATCH):
            results += self._send(commands[start : start + calls.BATCH])
        return calls.read_many(commands, results, self._where)

    def subscribe(self, channel: str) -> SyncSubscription:
        """Return a context manager with `get(timeout)`, on a connection of its own."""
        if self._cluster is None:
            return SyncSubscription(lambda: self.client, channel)
        cluster = self._cluster
        return SyncSubscription(lambda: cluster.server(cluster.node_of(channel)).client, channel, lost=cluster.doubt)

    def close(self) -> None:
        """Close the connections if this executor made them."""
        if self._cluster is not None:
            self._cluster.close()
        elif self._owned:
            close_client(self.client)

    def _send(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Give each command's reply, or the exception that came in its place."""
        clock = time.monotonic
        sending = calls.Sending(commands, clock() + self._timeout)
        while True:
            pause = sending.take(self._run(sending.pending), clock())
            if pause is None:
                return sending.results
            if pause:
                time.sleep(pause)

    def _run(self, commands: Sequence[Command[Any]]) -> list[Any]:
        if self._cluster is not None:
            return self._cluster.run(commands)
        assert self._server is not None
        return self._server.run(commands)
