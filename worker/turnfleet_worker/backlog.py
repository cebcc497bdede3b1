"""How far the broker's queues have been worked off: which run the oldest waiting message of each names.

The sweep asks before it offers a queued run again: in a first-in, first-out queue, a message that is no older than
the oldest one waiting has only not been reached yet. Brokers that cannot be looked into say nothing here, and then
the growing pauses between offers alone keep a backlog from multiplying.
"""

import json
import logging
from collections.abc import Iterable
from itertools import product
from typing import Any, Final

from celery import Celery
from kombu.transport import redis as redis_transport
from redis.exceptions import NoPermissionError

from turnfleet.wire.broker import HIGHEST_PRIORITY
from turnfleet.wire.connecting import bounded

Lane = tuple[str, int]
"""A queue's name and a run's priority (0-9, 9 first)."""

RedisChannel: Any = redis_transport.Channel
TIMEOUT_SECONDS: Final = 5.0

_log = logging.getLogger(__name__)
_OLDEST: Final = -1  # kombu pushes left and pops right


class Backlog:
    """Looks into the broker of a worker's app. Blocks: call it from a thread."""

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._closed: set[str] = set()

    def oldest(self, queues: Iterable[str]) -> dict[Lane, str]:
        """Return, for each lane where messages wait, the run id that the oldest names.

        A lane that must not be looked into is left out, and the log says so once. Raises what kombu raises when the
        broker does not answer.
        """
        with bounded(self._app.connection_for_write(), TIMEOUT_SECONDS) as connection:
            channel = connection.default_channel
            if not isinstance(channel, RedisChannel):
                return {}
            lanes = list(product(queues, channel.priority_steps))
            with channel.conn_or_acquire() as client, client.pipeline(transaction=False) as pipe:
                for queue, step in lanes:
                    # kombu's naming of its own lists; its prefix it puts before the commands that it uses itself.
                    name = channel._q_for_pri(queue, step)  # noqa: SLF001
                    pipe.lindex(f"{channel.global_keyprefix}{name}", _OLDEST)
                messages = pipe.execute(raise_on_error=False)
        closed = {queue for (queue, _), told in zip(lanes, messages, strict=True) if _forbids(told)}
        self._note_closed({queue for queue, _ in lanes}, closed)
        for told in messages:
            if isinstance(told, Exception) and not _forbids(told):
                raise told
        return {
            (queue, HIGHEST_PRIORITY - step): run_id
            for (queue, step), message in zip(lanes, messages, strict=True)
            if isinstance(message, bytes) and (run_id := _run_id(message)) is not None
        }

    def _note_closed(self, asked: set[str], closed: set[str]) -> None:
        for queue in sorted(closed - self._closed):
            _log.warning(
                "this worker's user may not look into the queue %r: its messages may be sent more than once, which "
                "costs a look at the run each; turnfleet acl --queue %s prints what users of that queue need",
                queue,
                queue,
            )
        self._closed = (self._closed - asked) | closed


def _forbids(told: object) -> bool:
    return isinstance(told, NoPermissionError)


def _run_id(message: bytes) -> str | None:
    """Read whose message it is; what is no message of ours says nothing."""
    try:
        headers: dict[str, Any] = json.loads(message)["headers"]
        return str(headers["root_id"])
    except (ValueError, LookupError, TypeError):
        return None
