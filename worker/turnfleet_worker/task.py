"""The one Celery task of a fleet. What executes it is the pool: here stand its name and its options."""

from typing import Any, NoReturn

from celery import Task

from turnfleet.wire.broker import TASK_NAME

__all__ = ["TASK_NAME", "InvokeTask"]


class InvokeTask(Task[Any, Any]):
    """`turnfleet.invoke(envelope=...)`: look at a run, claim it, run it (DESIGN section 1).

    Retries, late acknowledgement, eta and expiry belong to the run's record; Celery's own are refused
    (`turnfleet_worker.pool.checks` at start-up, `turnfleet_worker.pool.receipt` on a message).
    """

    name = TASK_NAME
    Strategy = "turnfleet_worker.pool.receipt:invoke_strategy"
    Request = "turnfleet_worker.pool.request:InvokeRequest"
    # Said here and not left to the app's settings: `task_acks_late` for a user's own tasks must not reach this one.
    acks_late = False
    reject_on_worker_lost = False
    ignore_result = True
    track_started = False

    def run(self, **_: object) -> NoReturn:
        """Refuse a direct call: without a worker there is no host, no claim and no message to acknowledge."""
        raise RuntimeError(
            f"{TASK_NAME} runs only inside a worker process: enqueue the run with turnfleet.Fleet "
            "and start `celery -A <module> worker`"
        )
