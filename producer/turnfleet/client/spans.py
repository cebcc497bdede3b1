"""The spans of a client's calls that start or change a run; a message published inside of one has it as its cause."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal

from opentelemetry.trace import Span, SpanKind

from turnfleet.client.order import Order
from turnfleet.client.setup import Setup
from turnfleet.wire import default_queue, spans


def enqueueing(setup: Setup, order: Order) -> AbstractContextManager[Span]:
    """Span `enqueue`: its context becomes the first trace of the run."""
    queue = order.options.queue or default_queue(setup.fleet)
    return spans.span_of(
        f"enqueue {queue}",
        _sending(setup, "enqueue")
        | {
            spans.DESTINATION: queue,
            spans.MESSAGE_ID: order.run_id,
            spans.RUN_ID: order.run_id,
            spans.AGENT_NAME: order.plan.name,
            spans.AGENT_VERSION: order.plan.version,
            spans.CONVERSATION_ID: order.options.thread_id,
            spans.TENANT: order.options.tenant,
        },
        kind=SpanKind.PRODUCER,
    )


def enqueueing_many(setup: Setup, orders: Sequence[Order]) -> AbstractContextManager[Span]:
    """Span `enqueue_many`: one for all of them."""
    about = _sending(setup, "enqueue_many") | {spans.BATCH_COUNT: len(orders)}
    return spans.span_of("enqueue_many", about, kind=SpanKind.PRODUCER)


def changing(setup: Setup, run_id: str, what: Literal["resume", "retry", "cancel"]) -> AbstractContextManager[Span]:
    """Span of a call that changes a run that is there. A resume and a retry publish its next message."""
    about = {spans.FLEET: setup.fleet, spans.RUN_ID: run_id}
    if what == "cancel":
        return spans.span_of(what, about, kind=SpanKind.CLIENT)
    return spans.span_of(what, _sending(setup, what) | about, kind=SpanKind.PRODUCER)


def _sending(setup: Setup, operation: str) -> dict[str, Any]:
    return {
        spans.SYSTEM: spans.CELERY,
        spans.OPERATION_NAME: operation,
        spans.OPERATION_TYPE: "send",
        spans.FLEET: setup.fleet,
    }
