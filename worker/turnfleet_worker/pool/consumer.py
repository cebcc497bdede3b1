"""Celery's consumer, hardened: no message ends the worker, and none is logged with what was in it.

Stock Celery logs the body of a message that it refuses, and lets some malformed ones raise through the hub, which
ends the worker or, on Redis, restores the message and meets it again for ever.
"""

import logging
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Final

from celery import signals
from celery.exceptions import CPendingDeprecationWarning
from celery.worker import state as worker_state
from celery.worker.consumer import Consumer
from typing_extensions import override

from turnfleet_worker.pool.transport import Batching, harden

__all__ = ["FleetConsumer"]

_log = logging.getLogger(__name__)

# What code raises that was promised another shape. KeyError needs care: kombu counts it as a lost connection.
_SHAPE_ERRORS: Final = (LookupError, TypeError, ValueError, AttributeError)
_SHOWN_CHARACTERS: Final = 200


class FleetConsumer(Consumer):
    """Refuses what it cannot read: dropped, counted by kind (`inspect stats`), logged without its content."""

    # Celery's own attributes, which its type stubs do not name.
    event_dispatcher: Any
    connection_errors: tuple[type[Exception], ...]
    app: Any
    task_consumer: Any
    controller: Any
    hub: Any

    @override
    def connection_for_read(self, heartbeat: float | None = None) -> Any:
        """Connect for consuming, over a transport that survives what is not a message at all."""
        batching = None if self.hub is None else Batching(self._free_slots, self.hub.call_soon)
        connection = harden(self.app.connection_for_read(heartbeat=heartbeat), self._on_garbage, batching)
        return self.ensure_connected(connection)

    @override
    def create_task_handler(self, *args: Any, **kwargs: Any) -> Callable[..., Any]:
        """Return Celery's message handler, behind a check of the headers that it takes for granted."""
        receive = super().create_task_handler(*args, **kwargs)

        def handle(message: Any) -> None:
            fault = _header_fault(message.headers)
            if fault is not None:
                self.refuse(message, "headers", fault)
                return
            try:
                receive(message)
            except _SHAPE_ERRORS as error:
                if _log.isEnabledFor(logging.DEBUG):
                    _log.debug("the refused message raised", exc_info=True)
                self.refuse(message, "malformed", f"reading it raised {type(error).__name__}")

        return handle

    def refuse(self, message: Any, kind: str, reason: str) -> None:
        """Drop a message for good: count it, log why, and show the task as failed where it has an id."""
        headers = message.headers if isinstance(message.headers, Mapping) else {}
        task_id, name = _text(headers.get("id")), _text(headers.get("task"))
        _log.error("refused a message (task %s, id %s): %s. It was dropped.", name or "?", task_id or "?", reason)
        self._count(kind)
        if not message.acknowledged:
            message.reject_log_error(_log, self.connection_errors)
        signals.task_rejected.send(sender=self, message=message, exc=None)
        if task_id and name and self.event_dispatcher is not None:
            self.event_dispatcher.send("task-received", uuid=task_id, name=name)
            self.event_dispatcher.send("task-failed", uuid=task_id, exception=f"Refused({reason!r})")

    @override
    def on_decode_error(self, message: Any, exc: Exception) -> None:
        """Refuse a body that does not decode, or whose content type is not JSON."""
        self.refuse(message, "content", _content_fault(message, exc))

    @override
    def on_invalid_task(self, body: Any, message: Any, exc: Exception) -> None:
        """Refuse what a task's strategy could not read."""
        self.refuse(message, "content", _content_fault(message, exc))

    @override
    def on_unknown_message(self, body: Any, message: Any) -> None:
        """Refuse what is no task message."""
        self.refuse(message, "headers", "it is not a Celery task message")

    @override
    def on_unknown_task(self, body: Any, message: Any, exc: Exception) -> None:
        """Refuse a task that this app does not have."""
        self.refuse(message, "unknown", "no task of this name is registered here")

    @override
    def on_connection_error_after_connected(self, exc: Exception) -> None:
        """Keep the events that wait for their turn: Celery carries only those over that failed to be sent."""
        if self.event_dispatcher is not None:
            self.event_dispatcher.flush()
        with warnings.catch_warnings():
            # Celery warns each time that late-acknowledged tasks run on; ours are acknowledged when they start.
            warnings.simplefilter("ignore", CPendingDeprecationWarning)
            super().on_connection_error_after_connected(exc)

    def flush(self) -> None:
        """Send what waits; acknowledgements first, so that a run that is seen to have ended has left the broker."""
        settle = getattr(getattr(getattr(self.task_consumer, "channel", None), "qos", None), "settle", None)
        if settle is not None:
            settle()
        dispatcher = self.event_dispatcher
        # Celery's cold shutdown comes here in a signal handler, perhaps out of the middle of a flush: whoever waits
        # for its lock then waits for ever, and the process with it.
        if dispatcher is not None and dispatcher.mutex.acquire(blocking=False):
            dispatcher.mutex.release()
            dispatcher.flush()

    def _flush_events(self) -> None:
        self.flush()

    def _free_slots(self) -> int:
        # As Celery reckons it for `worker_disable_prefetch`.
        limit = getattr(self.controller, "max_concurrency", None) or self.pool.num_processes
        return int(limit) - len(worker_state.reserved_requests)

    def _on_garbage(self, queue_hint: str, error: Exception) -> None:
        _log.error(
            "refused what was on %s: it is not a message in kombu's format (%s). It was dropped.",
            queue_hint,
            type(error).__name__,
        )
        self._count("garbage")

    def _count(self, kind: str) -> None:
        runtime = getattr(self.pool, "runtime", None)
        if runtime is not None:
            runtime.refused[kind] += 1


def _header_fault(headers: object) -> str | None:
    if not isinstance(headers, Mapping):
        return "its headers are not a mapping"
    if "task" not in headers:
        return None  # protocol 1 keeps the name in the body; Celery's handler looks there
    if not isinstance(headers["task"], str):
        return "the header `task` is not a text"
    task_id = headers.get("id")
    if not isinstance(task_id, str) or not task_id:
        return "the header `id` is missing or not a text"
    return None


def _content_fault(message: Any, exc: Exception) -> str:
    # The exception's own text may quote the body.
    return f"its content type is {_text(message.content_type) or 'missing'}, and reading it raised {type(exc).__name__}"


def _text(value: object) -> str:
    return value[:_SHOWN_CHARACTERS] if isinstance(value, str) and value.isprintable() else ""
