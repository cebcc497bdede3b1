"""Spans of what a worker does with a run: its claim, and each invocation in it (docs/design/tracing.md)."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from celery.exceptions import TaskPredicate
from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind

from turnfleet.store.records import Claim
from turnfleet.store.transitions import COMPLETED, FAILED, PAUSED
from turnfleet.wire import spans
from turnfleet.wire.trace_context import current_trace, is_trace, parentage
from turnfleet_kernel.calls import current_call
from turnfleet_kernel.contracts.interrupts import InvocationPaused
from turnfleet_kernel.contracts.values import UsageDelta
from turnfleet_kernel.plan import PlanIdentity
from turnfleet_worker.pool.ports import Delivery
from turnfleet_worker.tracing.names import OPERATION, usage_attributes


@contextmanager
def processing(fleet: str, claim: Claim, delivery: Delivery) -> Iterator[Span]:
    """Span `process`, around all that a worker does with a claim: a child of the enqueue, or linked to it."""
    if not spans.tracing_on():
        yield trace.INVALID_SPAN
        return
    place = parentage(
        # Nothing had begun: a run that was only handed on is still on its way from its enqueue.
        new=claim.previous in {"new", "released"} and not claim.journal,
        first=first_trace(claim),
        headers=delivery.carrier,
    )
    told: TaskPredicate | None = None
    with spans.span_of(
        f"process {claim.queue}", _claim_attributes(fleet, claim, delivery), kind=SpanKind.CONSUMER, place=place
    ) as span:
        try:
            yield span
        except TaskPredicate as answer:
            told = answer  # an answer to Celery, no error
    if told is not None:
        raise told


def _claim_attributes(fleet: str, claim: Claim, delivery: Delivery) -> dict[str, Any]:
    return {
        spans.SYSTEM: spans.CELERY,
        spans.OPERATION_NAME: "process",
        spans.OPERATION_TYPE: "process",
        spans.DESTINATION: claim.queue,
        spans.MESSAGE_ID: delivery.task_id,
        spans.CONVERSATION_ID: claim.thread_id,
        spans.AGENT_NAME: claim.plan.get("name"),
        spans.FLEET: fleet,
        spans.RUN_ID: claim.run_id,
        spans.TENANT: claim.tenant,
        spans.ATTEMPT: claim.attempt,
    }


def first_trace(claim: Claim) -> str | None:
    """Give the trace in which the run began: that of its enqueue, else the one that its first invocation noted."""
    if is_trace(claim.trace):
        return claim.trace
    opened = (entry for entry in claim.journal if entry["k"] == "opened" and "run" not in entry)
    return next((entry["trace"] for entry in opened if "trace" in entry), None)


def trace_to_note(claim: Claim) -> str | None:
    """Give the trace that a run's first invocation is to note as the run's first; None when there is one."""
    if not spans.tracing_on():
        return None
    return None if first_trace(claim) else current_trace()


def note_state(state: str) -> None:
    """Say on the current span what a run is now."""
    trace.get_current_span().set_attribute(spans.STATE, state)


def invoking(plan: PlanIdentity, run_id: str | None = None) -> AbstractContextManager[Span]:
    """Span `invoke_agent`, around an invocation of a run, be it a fleet's own or one that was delegated."""
    return spans.span_of(
        f"invoke_agent {plan.name}",
        {
            OPERATION: "invoke_agent",
            spans.AGENT_NAME: plan.name,
            spans.AGENT_VERSION: plan.version,
            spans.PLAN_ID: plan.plan_id,
            spans.RUN_ID: run_id,
        },
    )


def note_end(span: Span, state: str | None, usage: UsageDelta | None, error: BaseException | None = None) -> None:
    """Say how an invocation ended, and what the run has used in all its invocations."""
    if not span.is_recording():
        return
    if state is not None:
        span.set_attribute(spans.STATE, state)
    span.set_attributes(usage_attributes(usage))
    if error is not None:
        spans.fail(span, error)


@contextmanager
def delegating(plan: PlanIdentity) -> Iterator[None]:
    """Span `invoke_agent`, around an invocation of a delegated run, inside of the call that runs it."""
    with invoking(plan) as span:
        state = None
        try:
            yield
            state = COMPLETED
        except InvocationPaused:
            state = PAUSED
            raise
        except Exception:
            state = FAILED
            raise
        finally:
            call = current_call()
            note_end(span, state, None if call is None else call.usage)


def note_run(run_id: str) -> None:
    """Say on the current span which delegated run it is of: its id is made when the run begins."""
    trace.get_current_span().set_attribute(spans.RUN_ID, run_id)
