"""How a job's outcome is told to Celery: acknowledgement, event, log line and signals. In the consumer's thread.

Celery's tracer does this for a function that it calls itself. A coroutine is over long after it was called, so its
end is told here, in the words that the tracer would have used.
"""

import time
from typing import Any, assert_never

from billiard.einfo import ExceptionInfo
from celery import signals, states
from celery.app.trace import LOG_SUCCESS, TraceInfo
from celery.exceptions import Ignore, Reject, Retry, TimeLimitExceeded
from celery.utils.log import get_logger
from celery.utils.saferepr import saferepr
from celery.worker import state as worker_state
from structlog.contextvars import bound_contextvars

from turnfleet_worker.pool.jobs import Cancelled, Job, Outcome, OutOfTime, Raised, Returned
from turnfleet_worker.pool.request import InvokeRequest
from turnfleet_worker.pool.tracebacks import traceback_text, users_part

__all__ = ["announce_end", "announce_start"]

# Celery's own name: operators filter on it, and it logs where the worker was told to.
_log = get_logger("celery.app.trace")


def announce_start(job: Job) -> None:
    """Send `task_prerun`: the host is about to see the message."""
    request = job.request
    job.began = time.monotonic()
    signals.task_prerun.send(
        sender=request.task, task_id=request.id, task=request.task, args=request.args, kwargs=request.kwargs
    )


def announce_end(job: Job, outcome: Outcome) -> None:
    """Acknowledge what is not yet, send the event that Flower shows, and `task_postrun`."""
    request = job.request
    state: str = states.FAILURE
    try:
        if _came_to_something(job, outcome):
            request.announce_received()
        with bound_contextvars(**job.delivery.labels):
            state = _tell(job, outcome)
    except BaseException:
        # Telling failed, not the run: its message must not stay with us, nor its id in Celery's books.
        worker_state.task_ready(request)
        request.acknowledge()
        raise
    finally:
        signals.task_postrun.send(
            sender=request.task,
            task_id=request.id,
            task=request.task,
            args=request.args,
            kwargs=request.kwargs,
            retval=_value(outcome),
            state=state,
        )


def _tell(job: Job, outcome: Outcome) -> str:
    """Tell Celery, and return the state that Celery would call it."""
    request = job.request
    match outcome:
        case Returned(value):
            _succeeded(job, value)
            state: str = states.SUCCESS
        case Raised(Ignore()) | Cancelled() if job.delivery.cancelled:
            request.announce_revoked(terminated=job.terminated)
            state = states.REVOKED
        case Cancelled() if job.abandoned:
            # Unaccepted, its message goes back to the queue with the connection; accepted, the run is another
            # worker's when its lease is over. Either way it has not ended, and nothing is announced.
            worker_state.task_ready(request)
            state = states.IGNORED
        case Raised(Ignore()):
            worker_state.task_ready(request)
            request.acknowledge()
            request.announce_ignored(after_start=job.delivery.accepted)
            state = states.IGNORED
        case Raised(Reject() as error):
            request.on_failure(ExceptionInfo((type(error), error, error.__traceback__)), return_ok=True)
            state = states.REJECTED
        case Raised(Retry()):
            # Nobody would publish the message again: retries are the record's (DESIGN section 7).
            state = _failed(request, RuntimeError("the host raised Celery's Retry, which turnfleet does not use"))
        case Raised(error):
            state = _failed(request, error)
        case Cancelled():
            state = _failed(
                request, RuntimeError("the coroutine was cancelled, and neither a person nor a limit asked")
            )
        case OutOfTime(limit):
            state = _failed(request, TimeLimitExceeded(limit))
        case never:
            assert_never(never)
    return state


def _came_to_something(job: Job, outcome: Outcome) -> bool:
    """Whether the message came to something: it was worked on, failed, or was revoked."""
    match outcome:
        case Raised(Ignore() | Reject()) | Cancelled():
            return job.delivery.cancelled
        case _:
            return True


def _value(outcome: Outcome) -> object:
    match outcome:
        case Returned(value):
            return value
        case Raised(error):
            return error
        case _:
            return None


def _succeeded(job: Job, value: object) -> None:
    request = job.request
    if not job.delivery.accepted:
        # Handled without a claim: it did start, and its message is done with.
        request.on_accepted(str(job.number), job.began)
    runtime = time.monotonic() - job.began
    shown = _shown(value, request.task.resultrepr_maxsize)
    signals.task_success.send(sender=request.task, result=value, runtime=runtime)
    context: dict[str, Any] = {
        "id": request.id,
        "name": request.name,
        "return_value": shown,
        "runtime": runtime,
        "args": request.argsrepr,
        "kwargs": request.kwargsrepr,
    }
    _log.info(LOG_SUCCESS.strip(), context, extra={"data": context})
    request.on_success((0, shown, runtime))


def _shown(value: object, most: int) -> str:
    """Return a result's text as Celery shows it: its own way is slow, and only needed to cut and for its quotes."""
    text = repr(value)
    same = len(text) <= most and '"' not in text and "\\" not in text
    return text if same else saferepr(value, most)


def _failed(request: InvokeRequest, error: BaseException) -> str:
    try:
        raise error  # noqa: TRY301 - an error made here has no traceback yet, and Celery's helpers count on one
    except BaseException as caught:  # noqa: BLE001 - whatever ended the run is shown
        caught.__traceback__ = users_part(caught.__traceback__)
        einfo = TraceInfo(states.FAILURE, error).handle_error_state(request.task, request.celery_context)
    einfo.traceback = traceback_text(error, content=request.consumer.app.worker_settings.show_content)
    request.acknowledge()
    request.on_failure(einfo, return_ok=True)
    return states.FAILURE
