"""A span `execute_tool` around each tool call that is made (docs/design/tracing.md)."""

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.trace import Span

from turnfleet.wire import spans
from turnfleet_kernel.contracts.values import ToolOutcome, ToolRequest
from turnfleet_worker.tracing.content import content_text
from turnfleet_worker.tracing.names import (
    CALL_ARGUMENTS,
    CALL_ID,
    CALL_RESULT,
    OPERATION,
    TOOL_NAME,
    TOOL_TYPE,
    run_here,
)

__all__ = ["executing", "note_outcome"]


@contextmanager
def executing(request: ToolRequest) -> Iterator[Span]:
    """Span `execute_tool`, around a call that is made."""
    about = {
        OPERATION: "execute_tool",
        TOOL_NAME: request.name,
        TOOL_TYPE: "function",
        CALL_ID: request.call_id,
        spans.RUN_ID: run_here(),
    }
    with spans.span_of(f"execute_tool {request.name}", about) as span:
        if span.is_recording() and spans.shows_content():
            span.set_attribute(CALL_ARGUMENTS, content_text(request.arguments))
        yield span


def note_outcome(span: Span, outcome: ToolOutcome, error: BaseException | None) -> None:
    """Say what a call gave: its value where content is shown, and the type of what went wrong."""
    if not span.is_recording():
        return
    if error is not None:
        spans.fail(span, error)
    elif spans.shows_content():
        span.set_attribute(CALL_RESULT, content_text(outcome.value))
