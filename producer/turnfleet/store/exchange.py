"""What is said to one Redis server: its scripts once, then commands by their digests. Decides; does not send.

An exchange yields words to be sent in one write and gets their replies back, an error in the place of a refused one.
Servers with and without await so share everything but the waiting.
"""

import time
from collections.abc import Generator, Sequence
from typing import Any, TypeAlias, TypeVar

from redis.exceptions import ResponseError

from turnfleet.store import calls
from turnfleet.store.command import Command
from turnfleet.store.replicas import Replicas
from turnfleet.store.scripts import Dialect

T = TypeVar("T")

Words: TypeAlias = Sequence[tuple[Any, ...]]
Exchange: TypeAlias = Generator[Words, list[Any], T]
"""Writes and their replies that end in a T."""


class Knowledge:
    """What is known of a server; threads may share it.

    `dialect`: the form of its scripts, found out when it is not given.
    """

    def __init__(self, dialect: Dialect | None = None) -> None:
        self._dialect = dialect
        self._loaded: Dialect | None = None
        self._replicas = Replicas()

    def run(self, commands: Sequence[Command[Any]]) -> Exchange[list[Any]]:
        """Run commands; gives each one's reply."""
        loaded = self._loaded
        if loaded is None:
            loaded = yield from self._load()
        words = [calls.evalsha(command, loaded) for command in commands]
        behind = self._replicas.words(commands, time.monotonic())
        replies = yield [*words, *behind]
        results = replies[: len(words)]
        self._replicas.take(behind, replies[len(words) :], time.monotonic())
        if calls.unloaded(results):
            self._loaded = None
        return results

    def _load(self) -> Exchange[Dialect]:
        dialect = self._dialect
        if dialect is None:
            dialect = yield from self._find_out()
        for reply in (yield calls.loads(dialect)):
            if isinstance(reply, Exception):
                raise reply
        self._loaded = dialect
        return dialect

    def _find_out(self) -> Exchange[Dialect]:
        (reply,) = yield [("EVAL", calls.PROBE, 0)]
        return "plain" if isinstance(reply, ResponseError) else "flagged"
