"""What a worker refuses to start with: settings under which it would lose, repeat or hold what it must not."""

import inspect
import os
from collections.abc import Callable
from typing import Any, Final

import click
from celery.concurrency.solo import TaskPool as SoloPool
from click.core import ParameterSource

from turnfleet_worker.pool.taskpool import TaskPool
from turnfleet_worker.task import TASK_NAME

__all__ = ["reason_to_refuse"]

_BECAUSE: Final = {
    "prefork": "its child processes would each need a host, an event loop and a Redis connection of their own, for one "
    "run at a time",
    "thread": "it keeps a thread for every run, cannot terminate one, and a stuck one holds up the end of the worker",
    "gevent": "it replaces the sockets and threads that the event loop is built on",
    "eventlet": "it replaces the sockets and threads that the event loop is built on",
}
_OPTIONS: Final = {
    "acks_late": "a message is acknowledged when its run is claimed; later, a lost connection would run it twice",
    "reject_on_worker_lost": "the runs of a lost worker are taken up when their lease is over",
    "autoretry_for": "a failed run is retried from its journal, `run.retry()`",
    "expires": "a run's expiry belongs to its record, `enqueue(expires=)`",
    "rate_limit": "Celery would hold messages unacknowledged in this process's memory; use -c",
}


def reason_to_refuse(worker: Any) -> str | None:
    """Return why this Celery worker must not start, and what to do instead; None when all is well."""
    checks: tuple[Callable[[Any], str | None], ...] = (_pool, _event_loop, _task_options, _content, _async_tasks)
    return next((reason for check in checks if (reason := check(worker)) is not None), None)


def _pool(worker: Any) -> str | None:
    pool = worker.pool_cls
    if issubclass(pool, SoloPool) or (issubclass(pool, TaskPool) and not _asked_for_prefork()):
        return None
    name = "prefork" if issubclass(pool, TaskPool) else pool.__module__.rsplit(".", 1)[-1]
    because = _BECAUSE.get(name, "turnfleet's runs are coroutines, which it cannot run")
    return (
        f"turnfleet does not run on Celery's {name} pool: {because}. Leave -P/--pool away (the app brings an asyncio "
        "pool; -c says how many runs at once), or use --pool=solo."
    )


def _asked_for_prefork() -> bool:
    """Whether somebody typed `-P prefork`, for which Celery's command line silently puts the app's own pool.

    It does so because prefork is also what it takes when nobody says anything. Who says it expects processes.
    """
    context = click.get_current_context(silent=True)
    if context is None or context.params.get("pool") is None:
        return False
    by_default = context.get_parameter_source("pool") in {ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP}
    return not by_default and "CELERY_CUSTOM_WORKER_POOL" not in os.environ


def _event_loop(worker: Any) -> str | None:
    if worker.use_eventloop or issubclass(worker.pool_cls, SoloPool):
        return None
    return (
        "turnfleet's pool needs a broker that Celery can read from its own event loop: Redis or RabbitMQ, on Linux or "
        "macOS. With another broker or system use --pool=solo."
    )


def _task_options(worker: Any) -> str | None:
    task = worker.app.tasks[TASK_NAME]
    for option, because in _OPTIONS.items():
        if getattr(task, option, None):
            return (
                f"{option} is set for {TASK_NAME} (on the task itself): {because}. Remove it for this task; "
                "it may stay for your own."
            )
    return None


def _content(worker: Any) -> str | None:
    # Task, event and control messages alike: whoever can reach the broker could otherwise run code here.
    accepted = {str(kind) for kind in worker.app.conf.accept_content}
    if accepted <= {"json", "application/json"}:
        return None
    return f"accept_content is {sorted(accepted)}: turnfleet takes JSON only. Remove the others."


def _async_tasks(worker: Any) -> str | None:
    for name, task in worker.app.tasks.items():
        if inspect.iscoroutinefunction(task.run):
            return (
                f"the task {name} is an async function, which Celery would call and never await. Make it a plain "
                "function (it may call asyncio.run), or register its work as a turnfleet tool."
            )
    return None
