"""One Redis server, as both executors use it: it has the scripts, and takes many commands in one write."""

import time
from collections.abc import Sequence
from typing import Any

import redis
import redis.asyncio as aredis
from redis.exceptions import RedisError, ResponseError

from turnfleet.store import calls
from turnfleet.store.command import Command
from turnfleet.store.replicas import Replicas
from turnfleet.store.scripts import Dialect


class AsyncServer:
    """A server that is spoken to with await. `dialect`: the form of its scripts, found out when it is not given."""

    def __init__(self, client: aredis.Redis, dialect: Dialect | None = None) -> None:
        self.client = client
        self._dialect = dialect
        self._loaded: Dialect | None = None
        self._replicas = Replicas()

    async def run(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Give each command's reply, or the exception that came in its place."""
        try:
            loaded = self._loaded or await self._load()
            words = [calls.evalsha(command, loaded) for command in commands]
            behind = self._replicas.words(commands, time.monotonic())
            replies = await self._pipe([*words, *behind])
            results = replies[: len(words)]
            self._replicas.take(behind, replies[len(words) :], time.monotonic())
            if calls.unloaded(results):
                self._loaded = None
        except (RedisError, OSError) as error:
            return [error] * len(commands)
        return results

    async def _load(self) -> Dialect:
        dialect = self._dialect or await self._find_out()
        for result in await self._pipe(calls.loads(dialect)):
            if isinstance(result, Exception):
                raise result
        self._loaded = dialect
        return dialect

    async def _find_out(self) -> Dialect:
        try:
            await self.client.execute_command("EVAL", calls.PROBE, 0)  # type: ignore[no-untyped-call]
        except ResponseError:
            return "plain"
        return "flagged"

    async def _pipe(self, words: Sequence[tuple[Any, ...]]) -> list[Any]:
        async with self.client.pipeline(transaction=False) as pipe:
            for each in words:
                pipe.execute_command(*each)
            return await pipe.execute(raise_on_error=False)


class SyncServer:
    """A server that is spoken to without await; threads may share it."""

    def __init__(self, client: redis.Redis, dialect: Dialect | None = None) -> None:
        self.client = client
        self._dialect = dialect
        self._loaded: Dialect | None = None
        self._replicas = Replicas()

    def run(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Give each command's reply, or the exception that came in its place."""
        try:
            loaded = self._loaded or self._load()
            words = [calls.evalsha(command, loaded) for command in commands]
            behind = self._replicas.words(commands, time.monotonic())
            replies = self._pipe([*words, *behind])
            results = replies[: len(words)]
            self._replicas.take(behind, replies[len(words) :], time.monotonic())
            if calls.unloaded(results):
                self._loaded = None
        except (RedisError, OSError) as error:
            return [error] * len(commands)
        return results

    def _load(self) -> Dialect:
        dialect = self._dialect or self._find_out()
        for result in self._pipe(calls.loads(dialect)):
            if isinstance(result, Exception):
                raise result
        self._loaded = dialect
        return dialect

    def _find_out(self) -> Dialect:
        try:
            self.client.execute_command("EVAL", calls.PROBE, 0)  # type: ignore[no-untyped-call]
        except ResponseError:
            return "plain"
        return "flagged"

    def _pipe(self, words: Sequence[tuple[Any, ...]]) -> list[Any]:
        with self.client.pipeline(transaction=False) as pipe:
            for each in words:
                pipe.execute_command(*each)  # type: ignore[no-untyped-call]
            return pipe.execute(raise_on_error=False)
