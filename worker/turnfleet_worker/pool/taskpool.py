"""The pool that Celery starts: one event loop, one coroutine a run, no thread and no process for each."""

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from billiard.einfo import ExceptionInfo
from celery import signals
from celery.concurrency.base import BasePool, apply_target
from celery.utils.log import get_logger
from celery.worker import state as worker_state
from typing_extensions import override

from turnfleet_worker.pool.executor import DaemonExecutor
from turnfleet_worker.pool.runtime import Runtime

__all__ = ["TaskPool"]

_log = get_logger(__name__)


class TaskPool(BasePool):
    """`celery -A myfleet worker -c 200`: the app names it, no `-P` is needed.

    Runs go to the `Runtime` (see `InvokeRequest.execute_using_pool`). What Celery applies here are the user's own
    tasks on the same app: plain functions, in a few threads.
    """

    # A stop waits for runs; that must not happen inside a signal handler.
    signal_safe = False
    task_join_will_block = False
    body_can_be_buffer = True

    limit: int
    runtime: Runtime  # the FleetStep brings it, before the pool is started

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._threads = DaemonExecutor(self.app.worker_settings.plain_task_threads, "turnfleet-plain")
        self._numbers = iter(range(1, 1 << 62))

    @override
    def on_start(self) -> None:
        """Tell libraries that set themselves up per process that this is one."""
        signals.worker_process_init.send(sender=self.options["initargs"][1])

    @override
    def on_apply(
        self,
        target: Callable[..., Any],
        args: Any = (),
        kwargs: Any = None,
        *,
        callback: Callable[..., Any],
        accept_callback: Callable[..., Any],
        error_callback: Callable[..., Any],
        **_: Any,
    ) -> Any:
        """Run a user's own task in a thread; acknowledgement, events and end in the consumer's."""
        post = self.runtime.mailbox.post

        def perform() -> None:
            try:
                apply_target(
                    target,
                    args,
                    kwargs,
                    callback=lambda ended: post(partial(callback, ended)),
                    accept_callback=lambda _pid, at: post(partial(accept_callback, number, at)),
                )
            except BaseException:  # noqa: BLE001 - a thread has nobody above it; the task is shown as failed
                post(partial(error_callback, ExceptionInfo()))
            finally:
                post(self._plain_ended)

        number = next(self._numbers)
        self.runtime.plain_running += 1
        return self._threads.submit(perform)

    @override
    def terminate_job(self, pid: Any, signal: Any = None) -> None:
        """Say that a thread cannot be ended from outside; runs are ended by their request."""
        _log.warning("plain task number %s runs in a thread, which cannot be terminated; it goes on", pid)

    def grow(self, n: int = 1) -> None:
        """Add `n` slots (Flower's button, `pool_grow`, autoscale)."""
        self._resize(self.limit + n)

    def shrink(self, n: int = 1) -> None:
        """Take `n` slots away; what runs in them runs on. ValueError when none would be left."""
        if self.limit - n < 1:
            raise ValueError(f"cannot shrink by {n}: the pool has {self.limit} slots and keeps at least one")
        self._resize(self.limit - n)

    @override
    def on_close(self) -> None:
        """Start nothing more."""
        self.runtime.begin_drain()

    @override
    def on_stop(self) -> None:
        """Warm shutdown, after the step's; and the cold one, which Celery runs in a signal handler.

        That handler tells everybody else of the signal only after this has come back.
        """
        self.runtime.stop(now=worker_state.should_terminate is True)
        self._threads.shutdown()

    @override
    def on_terminate(self) -> None:
        """Go now."""
        self.runtime.stop(now=True)
        self._threads.shutdown()

    def _resize(self, limit: int) -> None:
        self.limit = self.runtime.limit = limit
        self.runtime.fill()

    def _plain_ended(self) -> None:
        self.runtime.plain_running -= 1

    def _get_info(self) -> dict[str, Any]:
        shown = {name: _readable(value) for name, value in self.runtime.info().items()}
        return super()._get_info() | {"processes": [os.getpid()]} | shown  # type: ignore[misc,no-any-return]


def _readable(value: object) -> object:
    """Return a value as Flower's page shows it best: it prints a mapping as Python would, and joins a list."""
    if isinstance(value, Mapping):
        return [f"{name}: {each}" for name, each in value.items()] or "none"
    return str(value) if isinstance(value, bool) else value
