"""kombu's Redis transport, for the consuming connection, with one fault mended.

An item on a queue's list that is not a message in kombu's format raises out of the hub and ends the worker. The item
was popped already, so the next worker lives; but anybody who can push could so end one worker after another.
"""

from collections.abc import Callable
from contextlib import suppress
from queue import Empty
from typing import Any

from kombu.transport import redis

__all__ = ["harden"]


def harden(connection: Any, on_garbage: Callable[[str, Exception], None]) -> Any:
    """Return the connection (not yet connected) with garbage handed to `on_garbage(where, error)` if it is to Redis."""
    transport = connection.get_transport_cls()
    if issubclass(transport, redis.Transport):
        channel = _tolerant(transport.Channel, on_garbage)
        connection.transport_cls = type(transport.__name__, (transport,), {"Channel": channel})
    return connection


def _tolerant(stock: Any, on_garbage: Callable[[str, Exception], None]) -> Any:
    class TolerantChannel(stock):  # type: ignore[misc]
        """Drops what cannot be a message instead of raising into the hub."""

        def _brpop_read(self, **options: Any) -> Any:
            try:
                return super()._brpop_read(**options)
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                # Raised before kombu noted the item as delivered: behind that, the consumer refuses by itself.
                on_garbage(f"one of the queues {sorted(self.active_queues)}", error)
                return True

        def basic_cancel(self, consumer_tag: str) -> Any:
            """Cancel, and take in the reply that is under way: a draining worker must not sit on a message for long."""
            result = super().basic_cancel(consumer_tag)
            if self._in_poll and not self.active_queues:
                with suppress(Empty):
                    self._brpop_read()  # at most a second; nobody consumes any more, so that kombu puts it back
            return result

    return TolerantChannel
