"""Spans through OpenTelemetry's API alone: names, and one way to make them (docs/design/tracing.md).

Without an SDK in the process every span here comes to nothing, for the price of a check.
"""

import asyncio
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from opentelemetry import context, trace
from opentelemetry.trace import Span, SpanKind, StatusCode

from turnfleet.wire.trace_context import Parentage

CONTENT_SWITCH: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The environment variable that lets prompts, messages, arguments and results into spans."""

# As of opentelemetry-semantic-conventions 0.66b2 (semantic conventions 1.45), messaging and error attributes.
SYSTEM: Final = "messaging.system"
OPERATION_NAME: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
DESTINATION: Final = "messaging.destination.name"
MESSAGE_ID: Final = "messaging.message.id"
BATCH_COUNT: Final = "messaging.batch.message_count"
ERROR_TYPE: Final = "error.type"
# The same, GenAI (0.66b2 has the names; their meaning is kept in semantic-conventions-genai, read at 0.1.0).
AGENT_NAME: Final = "gen_ai.agent.name"
AGENT_VERSION: Final = "gen_ai.agent.version"
CONVERSATION_ID: Final = "gen_ai.conversation.id"
# Ours.
FLEET: Final = "turnfleet.fleet"
RUN_ID: Final = "turnfleet.run_id"
PLAN_ID: Final = "turnfleet.plan_id"
TENANT: Final = "turnfleet.tenant"
ATTEMPT: Final = "turnfleet.attempt"
STATE: Final = "turnfleet.state"
CUT_SHORT: Final = "turnfleet.cut_short"

CELERY: Final = "celery"

_SHOWS: Final = frozenset({"true", "span_only", "span_and_event"})
_tracer: Final = trace.get_tracer("turnfleet")


def tracing_on() -> bool:
    """Tell whether somebody set up an SDK in this process: if not, no span need be thought of."""
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider | trace.NoOpTracerProvider)


def shows_content() -> bool:
    """Tell whether spans may hold what people and models said (`CONTENT_SWITCH`)."""
    return os.environ.get(CONTENT_SWITCH, "").strip().lower() in _SHOWS


def begin(
    name: str,
    attributes: Mapping[str, Any],
    *,
    kind: SpanKind = SpanKind.INTERNAL,
    place: Parentage | None = None,
) -> Span:
    """Begin a span that the caller ends; None among attributes is left out. By default below the current one."""
    return _tracer.start_span(
        name,
        context=place.context if place else None,
        kind=kind,
        attributes={key: value for key, value in attributes.items() if value is not None},
        links=place.links if place else None,
    )


@contextmanager
def span_of(
    name: str,
    attributes: Mapping[str, Any],
    *,
    kind: SpanKind = SpanKind.INTERNAL,
    place: Parentage | None = None,
) -> Iterator[Span]:
    """Make a span around a block, current in it (see `begin`). Without an SDK it costs a check.

    An exception that leaves the block marks the span with its type, and with its text only where content is shown.
    What is no error (`BaseException`: a pause, a hand-over) leaves its status alone; a cancellation says so.
    """
    if not tracing_on():
        yield trace.INVALID_SPAN
        return
    span = begin(name, attributes, kind=kind, place=place)
    with _within(place), trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
        try:
            yield span
        except Exception as error:
            fail(span, error)
            raise
        except asyncio.CancelledError:
            span.set_attribute(CUT_SHORT, value=True)
            raise


@contextmanager
def _within(place: Parentage | None) -> Iterator[None]:
    """Be in the context of a place: what it carries beside a span (baggage) is there for all that is done."""
    if place is None:
        yield
        return
    token = context.attach(place.context)
    try:
        yield
    finally:
        context.detach(token)


def fail(span: Span, error: BaseException) -> None:
    """Mark a span as failed: the type of the error always, its text and traceback only where content is shown."""
    if not span.is_recording():
        return
    span.set_attribute(ERROR_TYPE, type(error).__qualname__)
    if shows_content():
        span.record_exception(error)
        span.set_status(StatusCode.ERROR, str(error))
    else:
        span.set_status(StatusCode.ERROR)
