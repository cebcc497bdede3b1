"""Runs commands against Redis, without await. `AsyncExecutor` is its twin."""

import time
from collections.abc import Sequence
from typing import Any, TypeVar

import redis
from redis.exceptions import RedisError, ResponseError

from turnfleet.errors import TurnfleetError
from turnfleet.store import calls
from turnfleet.store.command import Command
from turnfleet.store.listener import SyncSubscription
from turnfleet.store.place import address, close_client, open_client
from turnfleet.store.replicas import Replicas

T = TypeVar("T")


class SyncExecutor:
    """Executes commands; safe to share between threads, not across a fork.

    `source` is a URL (`place.py`), or a client (its `decode_responses` must be off). Connects on first use. Answers
    within about `timeout` seconds, or raises `FleetUnavailable`.
    """

    def __init__(self, source: "str | redis.Redis", *, timeout: float = calls.TIMEOUT_SECONDS) -> None:
        self._owned = isinstance(source, str)
        self._where = address(source) if isinstance(source, str) else "the given client"
        self._client: redis.Redis = open_client(source, timeout) if isinstance(source, str) else source
        self._timeout = timeout
        self._plain: bool | None = None
        self._replicas = Replicas()

    @property
    def client(self) -> redis.Redis:
        """The client beneath, for what is no command (a diagnosis, a test)."""
        return self._client

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
        return SyncSubscription(self._client, channel)

    def close(self) -> None:
        """Close the connections if this executor made them."""
        if self._owned:
            close_client(self._client)

    def _send(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Give each command's reply, or the exception that came in its place."""
        clock = time.monotonic
        sending = calls.Sending(commands, clock() + self._timeout)
        while True:
            pause = sending.take(self._try_once(sending.pending), clock())
            if pause is None:
                return sending.results
            if pause:
                time.sleep(pause)

    def _try_once(self, commands: Sequence[Command[Any]]) -> list[Any]:
        try:
            if self._plain is None:
                self._load()
            words = [calls.evalsha(command, plain=bool(self._plain)) for command in commands]
            behind = self._replicas.words(commands, time.monotonic())
            replies = self._pipe([*words, *behind])
            results = replies[: len(words)]
            self._replicas.take(behind, replies[len(words) :], time.monotonic())
            if calls.unloaded(results):
                self._plain = None
        except (RedisError, OSError) as error:
            return [error] * len(commands)
        return results

    def _load(self) -> None:
        try:
            self._client.execute_command("EVAL", calls.PROBE, 0)  # type: ignore[no-untyped-call]
            plain = False
        except ResponseError:
            plain = True
        for result in self._pipe(calls.loads(plain=plain)):
            if isinstance(result, Exception):
                raise result
        self._plain = plain

    def _pipe(self, words: Sequence[tuple[Any, ...]]) -> list[Any]:
        with self._client.pipeline(transaction=False) as pipe:
            for each in words:
                pipe.execute_command(*each)  # type: ignore[no-untyped-call]
            return pipe.execute(raise_on_error=False)
