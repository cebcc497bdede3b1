"""How many messages wait on each queue of the broker, whichever it is."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kombu import Connection
from kombu.exceptions import KombuError
from kombu.transport import virtual

from turnfleet.store.keys import Keys
from turnfleet.store.reasons import reason
from turnfleet.wire.broker import celery_settings
from turnfleet.wire.connecting import bounded, producer_app

_NO_SUCH_QUEUE: Final = "404"


@dataclass(frozen=True, slots=True)
class Depths:
    """`depths`: messages by queue; None for one that must not be looked into. Queues that do not exist are left out.

    `error`: why the broker did not answer (no URL in it). `transport` is the broker's kind.
    """

    transport: str
    error: str | None = None
    depths: Mapping[str, int | None] = field(default_factory=dict)


def look_into(url: str, keys: Keys, queues: Sequence[str], *, timeout: float) -> Depths:
    """Look into a fleet's queues, in at most about `timeout` seconds a wait."""
    app = producer_app(url, keys.fleet, keys.key_prefix)
    place = celery_settings(keys.fleet, url, keys.key_prefix)["broker_url"]  # the environment's would win in the app
    connection = bounded(app.connection_for_read(place, connect_timeout=timeout), timeout)
    transport = str(connection.transport.driver_type)
    away: tuple[type[BaseException], ...] = (
        KombuError,
        OSError,
        *connection.connection_errors,
        *connection.channel_errors,
    )
    try:
        with connection:
            _ = connection.default_channel  # not connect(): that would try again after two seconds
            return Depths(transport, None, dict(_depths(connection, queues)))
    except away as error:
        return Depths(transport, reason(error))


def _depths(connection: Connection, queues: Sequence[str]) -> Iterator[tuple[str, int | None]]:
    for queue in queues:
        # A channel each: RabbitMQ closes the channel on which it answers that there is no such queue.
        channel: Any = connection.channel()
        try:
            yield queue, _messages(channel, queue)
        except connection.channel_errors as error:
            if str(getattr(error, "reply_code", "")) != _NO_SUCH_QUEUE:
                yield queue, None
        finally:
            channel.close()


def _messages(channel: Any, queue: str) -> int:
    if isinstance(channel, virtual.Channel):
        # kombu's Redis asks whether a queue exists under a name without the key prefix, and so never finds it.
        return int(channel._size(queue))  # noqa: SLF001 - what a passive declaration answers with
    return int(channel.queue_declare(queue=queue, passive=True).message_count)
