"""What must not be lost waits for a replica, where there is one (DESIGN 2): narrows a failover's window, closes none.

Decides; does not send. Both executors add the words to what they send anyway, so a server without replicas costs
nothing but a look now and then.
"""

import logging
from collections.abc import Sequence
from typing import Any, Final

from turnfleet.store.command import Command

LOOK_SECONDS: Final = 30.0
"""How often the server is asked whether it has replicas."""

SHORT_LOOK_SECONDS: Final = 5.0
"""The same after a replica did not confirm in time; until then nothing waits, so that a stuck one stops no run."""

WAIT_MS: Final = 500
_WAIT: Final[tuple[Any, ...]] = ("WAIT", 1, WAIT_MS)
_LOOK: Final[tuple[Any, ...]] = ("INFO", "replication")

_log = logging.getLogger(__name__)


class Replicas:
    """One executor's knowledge of its server's replicas; threads may share it."""

    def __init__(self) -> None:
        self._there = False
        self._next_look = 0.0

    def words(self, commands: Sequence[Command[Any]], now: float) -> list[tuple[Any, ...]]:
        """Return what to send behind these commands, in the same write. `now`: monotonic seconds."""
        words: list[tuple[Any, ...]] = []
        if any(command.durable for command in commands):
            if self._there:
                words.append(_WAIT)
            if now >= self._next_look:
                words.append(_LOOK)
        return words

    def take(self, words: Sequence[tuple[Any, ...]], replies: Sequence[Any], now: float) -> None:
        """Note the replies to `words`. A server that does not let itself be asked has no replicas to us."""
        for word, reply in zip(words, replies, strict=True):
            if word == _LOOK:
                self._there = isinstance(reply, dict) and bool(reply.get("connected_slaves"))
                self._next_look = now + LOOK_SECONDS
            elif not isinstance(reply, int) or reply < 1:
                _log.warning("no replica confirmed a write within %d ms: a failover now could lose it", WAIT_MS)
                self._there = False
                self._next_look = now + SHORT_LOOK_SECONDS
                return
