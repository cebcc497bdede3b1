"""What Celery, and so Flower, is told of how a claim ended."""

from typing import Final

from celery.exceptions import Ignore

from turnfleet.store.transitions import CANCELLED, EXPIRED, PAUSED
from turnfleet_worker.ending import Left
from turnfleet_worker.pool.ports import Delivery

CUT_SHORT: Final = frozenset({CANCELLED, EXPIRED})
"""Ends that Celery calls a revoke: somebody, or the clock, ended the run before it was done."""


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
