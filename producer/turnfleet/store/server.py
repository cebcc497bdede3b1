"""One Redis server, as both executors use it: takes many commands in one write."""

from collections.abc import Sequence
from typing import Any

import redis
import redis.asyncio as aredis
from redis.exceptions import RedisError

from turnfleet.store.command import Command
from turnfleet.store.exchange import Knowledge, Words
from turnfleet.store.scripts import Dialect


class AsyncServer:
    """A server that is spoken to with await. `dialect`: the form of its scripts, found out when it is not given."""

    def __init__(self, client: aredis.Redis, dialect: Dialect | None = None) -> None:
        self.client = client
        self._knowledge = Knowledge(dialect)

    async def run(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Give each command's reply, or the exception that came in its place."""
        exchange = self._knowledge.run(commands)
        try:
            words = next(exchange)
            while True:
                words = exchange.send(await self._pipe(words))
        except StopIteration as stop:
            results: list[Any] = stop.value
            return results
        except (RedisError, OSError) as error:
            return [error] * len(commands)

    async def _pipe(self, words: Words) -> list[Any]:
        async with self.client.pipeline(transaction=False) as pipe:
            for each in words:
                pipe.execute_command(*each)
            return await pipe.execute(raise_on_error=False)


class SyncServer:
    """A server that is spoken to without await; threads may share it."""

    def __init__(self, client: redis.Redis, dialect: Dialect | None = None) -> None:
        self.client = client
        self._knowledge = Knowledge(dialect)

    def run(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Give each command's reply, or the exception that came in its place."""
        exchange = self._knowledge.run(commands)
        try:
            words = next(exchange)
            while True:
                words = exchange.send(self._pipe(words))
        except StopIteration as stop:
            results: list[Any] = stop.value
            return results
        except (RedisError, OSError) as error:
            return [error] * len(commands)

    def _pipe(self, words: Words) -> list[Any]:
        with self.client.pipeline(transaction=False) as pipe:
            for each in words:
                pipe.execute_command(*each)  # type: ignore[no-untyped-call]
            return pipe.execute(raise_on_error=False)
