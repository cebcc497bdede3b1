"""What a Redis channel holds for its broker: messages taken and not yet acknowledged.

Two faults of kombu are kept out of the worker here, see `transport.py`, and acknowledgements leave in batches.
"""

import logging
from typing import Any

from kombu.transport import redis, virtual
from redis.exceptions import OutOfMemoryError, RedisError

__all__ = ["TolerantQoS"]

_log = logging.getLogger(__name__)


# Its type stubs know a part of it only.
_StockQoS: Any = redis.QoS


class TolerantQoS(_StockQoS):  # type: ignore[misc]
    """Keeps the worker alive when the messages that it holds cannot be put back; settles them in batches.

    `soon` is a hub's `call_soon`: what is acknowledged before its next turn is told to the broker in one call. None:
    each at once.
    """

    soon: Any = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._noted: set[str] = set()
        self._settled: list[str] = []

    def noted(self, tag: str) -> None:
        """Hear that a message is noted on the server already, by the call that took it."""
        self._noted.add(tag)

    def forget(self, tag: str) -> None:
        """Drop a message that was noted and cannot be read."""
        self._noted.discard(tag)
        self._remove([tag])

    def append(self, message: Any, delivery_tag: str) -> None:
        """Note that a message is ours until it is acknowledged; on a server that is full, in this process alone.

        Should this process die then, the message is gone, and the sweep offers its run again.
        """
        if delivery_tag in self._noted:
            self._noted.discard(delivery_tag)
            virtual.QoS.append(self, message, delivery_tag)
            return
        try:
            super().append(message, delivery_tag)
        except OutOfMemoryError:
            _log.warning("the broker's Redis is out of memory: message %s is held by this process alone", delivery_tag)
            virtual.QoS.append(self, message, delivery_tag)

    def ack(self, delivery_tag: str) -> None:
        """Acknowledge: together with all that come before the hub's next turn, or at once where there is no hub."""
        if self.soon is None:
            super().ack(delivery_tag)
            return
        virtual.QoS.ack(self, delivery_tag)
        self._settled.append(delivery_tag)
        if len(self._settled) == 1:
            self.soon(self.settle)

    def settle(self) -> None:
        """Tell the broker what was acknowledged. What it is not told it delivers again, to find nothing to claim."""
        tags, self._settled = self._settled, []
        if not tags:
            return
        try:
            self._remove(tags)
        except (RedisError, *self.channel.connection_errors) as error:
            _log.warning("%d acknowledgements did not arrive (%s)", len(tags), type(error).__name__)

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

    def _remove(self, tags: list[str]) -> None:
        # No transaction: a server that is full takes none, not even one that frees memory.
        with self.channel.conn_or_acquire() as client, client.pipeline(transaction=False) as pipe:
            pipe.zrem(self.unacked_index_key, *tags).hdel(self.unacked_key, *tags).execute()
