"""A received `turnfleet.invoke`: Celery's request, with acknowledgements that survive a lost connection.

Celery acknowledges over the channel that delivered the message. When that channel is gone, kombu raises an
AttributeError deep inside, in the hub, and the worker ends. Here a late acknowledgement is only noted: the broker
delivers the message again, and the duplicate finds nothing to claim.
"""

import logging
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from celery.app.task import Context
from celery.platforms import signals as system_signals
from celery.worker.request import Request
from typing_extensions import override

__all__ = ["InvokeRequest", "is_time_limit"]

_log = logging.getLogger(__name__)

HIDDEN: Final = "{'envelope': '...'}"
# What our own producer writes (turnfleet.wire.publish): names only.
_NAMES_ONLY = re.compile(r"\{'plan': (None|'[^'\\]{0,200}'), 'run_id': '[A-Za-z0-9._:@-]{1,200}'\}")


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
            headers={**headers, **_shown(headers)},
            connection_errors=consumer.connection_errors,
        )
        self.consumer = consumer
        self.envelope = envelope

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


def _shown(headers: Mapping[str, Any]) -> dict[str, str]:
    """Return what events, logs and Flower show as arguments.

    Our producer wrote something safe. Any other client's library writes a repr of the arguments, prompt included.
    """
    shown = headers.get("kwargsrepr")
    ours = isinstance(shown, str) and _NAMES_ONLY.fullmatch(shown)
    return {"argsrepr": "()", "kwargsrepr": str(shown) if ours else HIDDEN}


def is_time_limit(value: object) -> bool:
    """Tell whether a message's time limit is one: None or a positive number of seconds."""
    if value is None:
        return True
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0
