"""The worker's boot step: checks that this process may run, makes its host and runtime, starts and stops them."""

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

from celery import bootsteps
from celery.concurrency.solo import TaskPool as SoloPool
from celery.exceptions import WorkerShutdown
from celery.platforms import EX_FAILURE
from typing_extensions import override

from turnfleet_kernel.errors import TurnfleetError
from turnfleet_worker.pool.checks import reason_to_refuse
from turnfleet_worker.pool.garbage import spare_the_collector
from turnfleet_worker.pool.runtime import Runtime

__all__ = ["FleetStep"]

_log = logging.getLogger(__name__)


class FleetStep(bootsteps.StartStopStep):
    """Started after the pool and before the consumer; stopped after the consumer, while its connection still lives."""

    requires = ("celery.worker.components:Pool",)

    @override
    def create(self, parent: Any) -> Any:
        """Refuse what must not start (SystemExit with the reason: no traceback), else put the runtime together."""
        reason = reason_to_refuse(parent)
        if reason is not None:
            raise SystemExit(f"The worker does not start: {reason}")
        app = parent.app
        solo = issubclass(parent.pool_cls, SoloPool)
        try:
            host = app.host_factory(app)
        except TurnfleetError as error:
            raise SystemExit(f"The worker does not start: {error}") from None
        runtime = Runtime(
            host,
            hostname=parent.hostname,
            limit=parent.pool.limit,
            drain_seconds=app.worker_settings.drain_seconds,
            blocking=solo,
        )
        runtime.flush = lambda: _flush(parent)
        runtime.send_event = partial(_send_event, parent)
        parent.pool.runtime = runtime
        return runtime

    @override
    def start(self, parent: Any) -> None:
        """Start the host; a reason of turnfleet's own ends the worker with its text alone."""
        if parent.hub is not None:
            self.obj.mailbox.wake_by(parent.hub.call_soon)
        try:
            self.obj.start()
        except TurnfleetError as error:
            _log.critical("The worker does not start: %s", error)
            raise WorkerShutdown(EX_FAILURE) from None
        spare_the_collector()

    @override
    def close(self, parent: Any) -> None:
        """Start nothing more."""
        self.obj.begin_drain()

    @override
    def terminate(self, parent: Any) -> None:
        """Go now."""
        self.obj.stop(now=True)

    @override
    def info(self, obj: Any) -> Any:
        """Return the runtime's part of `inspect stats`, under any pool."""
        return {"turnfleet": self.obj.info()}


def _send_event(worker: Any, kind: str, fields: Mapping[str, object]) -> None:
    """Send an event, if this worker sends any and is connected."""
    dispatcher = getattr(getattr(worker, "consumer", None), "event_dispatcher", None)
    if dispatcher is not None and dispatcher.enabled:
        dispatcher.send(kind, **fields)


def _flush(worker: Any) -> None:
    """Send acknowledgements and events now: while the worker drains, nobody turns the hub that would."""
    consumer = getattr(worker, "consumer", None)
    if consumer is not None:
        consumer.flush()
