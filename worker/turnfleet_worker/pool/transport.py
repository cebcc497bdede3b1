"""kombu's Redis transport, for the consuming connection, with four faults mended.

An item on a queue's list that is not a message in kombu's format raises out of the hub and ends the worker. The item
was popped already, so the next worker lives; but anybody who can push could so end one worker after another.

A pop that is under way when the worker stops consuming may still win a message, which then lies in the socket until
the connection is closed: as long as the worker drains.

When Redis dies while a message is unacknowledged, kombu tries to put it back through the channel that it has already
taken apart, and the AttributeError ends the worker.

A Redis that is out of memory gives messages out and refuses the note of who has them, which ends the worker, too.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from queue import Empty
from typing import Any, Final

from kombu.transport import redis, virtual
from kombu.utils.eventio import READ, poll
from redis.exceptions import OutOfMemoryError

__all__ = ["harden"]

# A pop waits at most a second on the server (kombu's brpop_timeout); the rest is for the way.
_REPLY_SECONDS: Final = 2.0

_log = logging.getLogger(__name__)


def harden(connection: Any, on_garbage: Callable[[str, Exception], None]) -> Any:
    """Return the connection (not yet connected) with garbage handed to `on_garbage(where, error)` if it is to Redis."""
    transport = connection.get_transport_cls()
    if issubclass(transport, redis.Transport):
        channel = _tolerant(transport.Channel, on_garbage)
        tolerant = type(transport.__name__, (transport,), {"Channel": channel})
        # Not `transport_cls`: that name is shown by `inspect stats`, and must stay plain text.
        connection.get_transport_cls = lambda: tolerant
    return connection


class TolerantQoS(redis.QoS):
    """Keeps the worker alive when the messages that it holds cannot be put back."""

    def append(self, message: Any, delivery_tag: str) -> None:
        """Note that a message is ours until it is acknowledged; on a server that is full, in this process alone.

        Should this process die then, the message is gone, and the sweep offers its run again.
        """
        try:
            super().append(message, delivery_tag)
        except OutOfMemoryError:
            _log.warning("the broker's Redis is out of memory: message %s is held by this process alone", delivery_tag)
            virtual.QoS.append(self, message, delivery_tag)

    def restore_unacked(self, client: Any = None) -> Any:
        """Put back what was not acknowledged, where that is possible.

        Where it is not, the broker still has it, and delivers it again after the visibility timeout. This process
        goes on with it meanwhile, so that the second delivery finds nothing to claim.
        """
        try:
            return super().restore_unacked(client)
        except Exception as error:  # noqa: BLE001 - the connection is gone in whatever way; the next one matters
            held: Any = self._delivered
            _log.warning(
                "the broker's connection was lost with %d unacknowledged messages (%s); they will be delivered again",
                len(held),
                type(error).__name__,
            )
            held.clear()
            return None


def _tolerant(stock: Any, on_garbage: Callable[[str, Exception], None]) -> Any:
    class TolerantChannel(stock):  # type: ignore[misc]
        """Drops what cannot be a message instead of raising into the hub, and leaves no message in the socket."""

        QoS = TolerantQoS
        _taking_in = False

        def _brpop_read(self, **options: Any) -> Any:
            try:
                return super()._brpop_read(**options)
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                # Raised before kombu noted the item as delivered: behind that, the consumer refuses by itself.
                on_garbage(f"one of the queues {sorted(self.active_queues)}", error)
                return True

        def basic_cancel(self, consumer_tag: str) -> Any:
            """Cancel; with the last queue, take in the reply under way: nobody consumes it, so kombu puts it back."""
            result = super().basic_cancel(consumer_tag)
            # Celery's cold shutdown cancels in a signal handler, perhaps while this very wait is interrupted by it:
            # two readers of one reply would leave one of them waiting.
            if not self.active_queues and not self._taking_in:
                self._taking_in = True
                try:
                    self._take_in_reply()
                finally:
                    self._taking_in = False
            return result

        def _take_in_reply(self) -> None:
            sock = getattr(self._in_poll, "_sock", None) if self._in_poll else None
            if sock is None:
                return
            poller = poll()
            try:
                poller.register(sock, READ)
                if poller.poll(_REPLY_SECONDS):
                    with suppress(Empty):
                        self._brpop_read()
            finally:
                poller.close()

    return TolerantChannel
