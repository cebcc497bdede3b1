"""The one door between the pool, which knows Celery, and the host, which knows runs."""

import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

__all__ = ["Delivery", "Host", "SendEvent"]

SendEvent: TypeAlias = Callable[[str, Mapping[str, object]], None]
"""Sends one of Celery's task events, by its name and its fields; soon, and from any thread."""


class Delivery:
    """One message on its way to the host: what the broker said about it, and how to accept it.

    An explicit value in place of Celery's `self.request`, which is thread-local and means nothing on an event loop
    with two hundred coroutines.
    """

    def __init__(
        self,
        *,
        task_id: str,
        root_id: str,
        redelivered: bool,
        hostname: str,
        carrier: Mapping[str, str] | None = None,
    ) -> None:
        self.task_id = task_id
        self.root_id = root_id
        self.redelivered = redelivered
        self.hostname = hostname
        self.carrier = carrier or {}
        """The trace context in the message's headers."""
        self.labels: Mapping[str, Any] = {}
        """What log lines about the message say beside their text; the host knows, once it has accepted it."""
        self._on_accept: Callable[[], None] = lambda: None
        self._lock = threading.Lock()
        self._accepted = False
        self._cancelled = False

    def accept(self) -> None:
        """Acknowledge the broker's message and announce the start. Call it when the run is claimed, never before.

        Safe from any thread; a second call does nothing. It does not wait: a lost acknowledgement costs a duplicate,
        which finds nothing to claim.
        """
        with self._lock:
            if self._accepted:
                return
            self._accepted = True
        self._on_accept()

    @property
    def accepted(self) -> bool:
        """Whether the host has accepted the message."""
        return self._accepted

    @property
    def cancelled(self) -> bool:
        """Whether this task was asked to end; by a revoke or terminate, the run is to be cancelled wherever it is."""
        return self._cancelled

    def on_accept(self, call: Callable[[], None]) -> None:
        """Have `call` called, once, when the host accepts; in the host's thread (the pool's side of the door)."""
        self._on_accept = call

    def cancel(self) -> None:
        """Note that this task was asked to end before it was done.

        The pool does so for a revoke or terminate, the host when it learns of a cancel by another way.
        """
        self._cancelled = True


class Host(Protocol):
    """What a worker process does with a message. One per process.

    All but `info`, `see_pool` and `drain` runs on the pool's event loop.
    """

    def info(self) -> Mapping[str, Any]:
        """Say what the host is at (plain JSON); shown in `inspect stats`. From any thread."""

    def see_pool(self, info: Callable[[], Mapping[str, Any]], send_event: SendEvent) -> None:
        """Take what tells of the pool, this host's `info` included, and the way to Flower; called once, before `start`.

        The pool announces its own messages' tasks. `send_event` is for those of others.
        """

    async def start(self) -> None:
        """Get ready before the first message. A `TurnfleetError` ends the worker with its text and no traceback."""

    async def stop(self, *, drain_seconds: float) -> None:
        """Hand back what still runs within `drain_seconds` (0: at once) and close; called once, after `drain`."""

    async def handle(self, envelope: object, delivery: Delivery) -> dict[str, object]:
        """Run one message to its end; the return value (JSON) is what Flower shows as the task's result.

        Raise `celery.exceptions.Ignore` when there is nothing to do: the message is acknowledged and Flower shows it as
        rejected; after `delivery.cancel()`, as revoked. `celery.exceptions.Reject` gives the message up
        (`requeue=True`: back to the queue, if it was not accepted yet). Any other exception is shown as the task's
        failure, with its traceback.

        A terminate, a time limit and the end of the process cancel the coroutine; for a terminate
        `delivery.cancelled` is then true. A task that was revoked before it started arrives with it true. In both
        cases record the cancellation, then raise `Ignore` or let the CancelledError go: the task is shown as revoked.
        """

    async def revoke(self, task_id: str) -> None:
        """Record that somebody revoked or terminated a task, whether or not it is at work in this process.

        Every worker of the fleet hears of it; the id may be no run's at all.
        """

    def drain(self) -> None:
        """Claim nothing more, and bring running work to a point where it can be handed over. Must not block.

        Called once, from the consumer's thread, when the process was asked to stop.
        """
