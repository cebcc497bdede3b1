"""A received `turnfleet.invoke`: Celery's request, with acknowledgements that survive a lost connection.

Celery acknowledges over the channel that delivered the message. When that channel is gone, kombu raises an
AttributeError deep inside, in the hub, and the worker ends. Here a late acknowledgement is only noted: the broker
delivers the message again, and the duplicate finds nothing to claim.
"""

import logging
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from celery.app.task import Context
from celery.platforms import signals as system_signals
from celery.worker.request import Request
from typing_extensions import override

from turnfleet_worker.pool.shown import shown_headers

__all__ = ["InvokeRequest", "is_time_limit"]

_log = logging.getLogger(__name__)


class InvokeRequest(Request):
    """One message of `turnfleet.invoke`, from receipt to its end. Belongs to the consumer's thread."""

    consumer: Any
    # Celery's own, which its type stubs do not name.
    _context: Any
    _announce_revoked: Callable[[str, bool, int | None, bool], None]

    def __init__(self, message: Any, *, consumer: Any, task: Any, envelope: object, headers: Mapping[str, Any]) -> None:
        super().__init__(
            message,
            app=consumer.app,
            hostname=consumer.hostname,
            task=task,
            headers={
                **headers,
                **shown_headers(headers, envelope, content=consumer.app.worker_settings.show_content),
            },
            connection_errors=consumer.connection_errors,
        )
        self.consumer = consumer
        self.envelope = envelope
        self._arrived = time.time()
        self._announced = False

    @property
    def celery_context(self) -> Context:
        """Celery's view of the message for signal receivers and error handlers."""
        context: Context = self._context
        return context

    def limits(self) -> tuple[float | None, float | None]:
        """Hard and soft time limit in seconds: the message's, else the task's."""
        hard, soft = self.time_limits
        return hard or self.task.time_limit, soft or self.task.soft_time_limit

    @override
    def execute_using_pool(self, pool: Any, **_: Any) -> Any:
        """Give the message to the runtime; under `--pool=solo`, stay until it is done."""
        pool.runtime.take(self)

    @override
    def send_event(self, type: str, **fields: Any) -> None:
        """Send through the dispatcher of today: the one of the receipt is closed after a reconnect."""
        dispatcher = self.consumer.event_dispatcher
        if dispatcher is not None and dispatcher.enabled and self.task.send_events:
            dispatcher.send(type, uuid=self.id, **fields)

    def announce_received(self) -> None:
        """Send `task-received`, once, with the time of the arrival.

        Not on arrival: Celery's picture of a task never goes back from RECEIVED to REJECTED, so that a message which
        finds nothing to do would be shown as received for ever.
        """
        if not self._announced:
            self._announced = True
            self._send_names("task-received", timestamp=self._arrived)

    def announce_ignored(self, *, after_start: bool) -> None:
        """Send `task-rejected`: the message found nothing to do. A task of this id that has ended stays what it is.

        After its start it is `task-retried`: this process lost the run, which goes on under its next message.
        """
        if after_start:
            self.send_event("task-retried", exception="this worker lost the run; another goes on")
        else:
            self._send_names("task-rejected", requeue=False)

    def _send_names(self, kind: str, **fields: Any) -> None:
        self.send_event(
            kind,
            name=self.name,
            args=self.argsrepr,
            kwargs=self.kwargsrepr,
            root_id=self.root_id,
            parent_id=self.parent_id,
            retries=0,
            eta=None,
            expires=None,
            **fields,
        )

    @override
    def acknowledge(self) -> None:
        """Acknowledge the message, once; a connection that is gone is noted and does no harm."""
        if not self.acknowledged:
            self.acknowledged = True
            self._settle(self.message.ack)

    @override
    def reject(self, requeue: bool = False) -> None:
        """Give the message up, once; `requeue` puts it back to its queue."""
        if not self.acknowledged:
            self.acknowledged = True
            self._settle(lambda: self.message.reject(requeue=requeue))
            self.send_event("task-rejected", requeue=requeue)

    @override
    def terminate(self, pool: Any, signal: int | None = None) -> None:
        """Cancel the run's coroutine (Flower's terminate); it is announced as revoked when it has ended."""
        pool.runtime.terminate(self.id)

    @override
    def cancel(self, pool: Any, signal: int | None = None, emit_retry: bool = True) -> None:
        """Cancel the coroutine because the process goes now; the run is taken up by another worker."""
        pool.runtime.abandon(self.id)

    @override
    def revoked(self) -> bool:
        """Never drop a message here: a revoked run must be cancelled in its record, which only the host can do."""
        return False

    def announce_revoked(self, *, terminated: bool) -> None:
        """Acknowledge, and send the event and signal of a task that a person ended."""
        signum = int(system_signals.signum("TERM")) if terminated else None
        expired = False
        self._announce_revoked("terminated" if terminated else "revoked", terminated, signum, expired)

    @override
    def info(self, safe: bool = False) -> Any:
        """Describe the request for `inspect`; never with its arguments, they hold the prompt."""
        return super().info(safe=True)

    def _settle(self, answer: Callable[[], object]) -> None:
        channel = self.message.channel
        if channel is None or getattr(channel, "connection", None) is None:
            _log.info("task %s: its connection is gone; the broker will deliver the message again", self.id)
            return
        try:
            answer()
        except Exception as error:  # noqa: BLE001 - each transport fails in its own way, and none of them matters
            _log.warning(
                "task %s: the broker did not take the acknowledgement (%s); it will deliver the message again",
                self.id,
                type(error).__name__,
                exc_info=_log.isEnabledFor(logging.DEBUG),
            )


def is_time_limit(value: object) -> bool:
    """Tell whether a message's time limit is one: None or a positive number of seconds."""
    if value is None:
        return True
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0
