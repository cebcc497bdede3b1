"""What Celery, and so Flower, is told of how a claim ended, be it that its worker was lost."""

from collections.abc import Mapping
from typing import Final, TypeAlias

from celery.exceptions import Ignore

from turnfleet.store.records import LostTask
from turnfleet.store.transitions import CANCELLED, EXPIRED, PAUSED, QUEUED
from turnfleet.wire.publish import task_id
from turnfleet_worker.ending import Left
from turnfleet_worker.pool.ports import Delivery

CUT_SHORT: Final = frozenset({CANCELLED, EXPIRED})
"""Ends that Celery calls a revoke: somebody, or the clock, ended the run before it was done."""


TaskEvent: TypeAlias = tuple[str, Mapping[str, object]]
"""One of Celery's task events: its name and its fields."""


def event_of(lost: LostTask) -> TaskEvent:
    """Return what is said of a task in the place of its worker, which cannot say it any more.

    As a worker says it that lost its run and lives: the task is retried, if its run goes on.
    """
    fields: dict[str, object] = {"uuid": lost.task_id, "root_id": lost.run_id}
    if lost.state == QUEUED:
        goes_on = task_id(lost.run_id, lost.offers)
        return "task-retried", {**fields, "exception": f"worker {lost.worker} was lost; the run goes on as {goes_on}"}
    if lost.state in CUT_SHORT:
        return "task-revoked", {**fields, "terminated": False, "signum": None, "expired": lost.state == EXPIRED}
    return "task-failed", {**fields, "exception": lost.error or "", "traceback": ""}


def result_of(run_id: str, left: Left, delivery: Delivery, *, content: bool) -> dict[str, object]:
    """Return the result of the task, or raise what Celery shows instead; `content`: with what the run was about.

    A run that failed raises its own error, one that was cut short or belongs to another worker by now `Ignore`.
    """
    if left.error is not None:
        raise left.error
    if left.state == "lost":
        raise Ignore("another worker has the run")
    if left.state in CUT_SHORT:
        delivery.cancel()
        raise Ignore(f"the run was {left.state}")
    # What matters stands first: a list of tasks shows some forty characters of it.
    result: dict[str, object] = {"state": left.state}
    if left.state == PAUSED:
        result["interrupts"] = list(left.interrupts)
    return {**result, **((left.content or {}) if content else {}), "run_id": run_id}
