"""The trace context that travels with a run, in its record and in the headers of its messages (design/tracing.md)."""

import json
from collections.abc import Mapping
from typing import Final

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link

_MOST_BYTES: Final = 8192


def current_headers() -> dict[str, str]:
    """Return the current trace context as message headers; none when there is none."""
    headers: dict[str, str] = {}
    propagate.inject(headers)
    return headers


def current_trace() -> str | None:
    """Return the current trace as a run's record keeps it: JSON of headers; None outside of any span."""
    return carrier_text(current_headers()) if trace.get_current_span().get_span_context().is_valid else None


def is_trace(trace_text: str | None) -> bool:
    """Tell whether a record's text says in which span something began."""
    return trace.get_current_span(context_of(headers_of(trace_text))).get_span_context().is_valid


def headers_of(trace_text: str | None) -> dict[str, str]:
    """Return the headers that a record's trace stands for; none for what is no JSON object of texts."""
    if trace_text is None:
        return {}
    try:
        return carrier_of(json.loads(trace_text))
    except ValueError:
        return {}


def carrier_of(headers: object) -> dict[str, str]:
    """Pick the trace context out of a message's headers, which anybody may have written."""
    if not isinstance(headers, Mapping):
        return {}
    fields = propagate.get_global_textmap().fields
    picked = {field: headers.get(field) for field in sorted(fields)}
    return {
        field: value
        for field, value in picked.items()
        if isinstance(value, str) and value and len(value) <= _MOST_BYTES
    }


def carrier_text(headers: Mapping[str, str]) -> str | None:
    """Return headers as a record keeps them; None for none."""
    return json.dumps(dict(headers), separators=(",", ":"), sort_keys=True) if headers else None


def context_of(headers: Mapping[str, str], base: Context | None = None) -> Context:
    """Return the context that headers carry, on top of `base` (by default an empty one)."""
    return propagate.extract(dict(headers), context=Context() if base is None else base)


class Parentage:
    """Where an invocation's span hangs: in `context`, with `links`."""

    __slots__ = ("context", "links")

    def __init__(self, context: Context, links: tuple[Link, ...]) -> None:
        self.context = context
        self.links = links


def parentage(*, new: bool, first: str | None, headers: Mapping[str, str]) -> Parentage:
    """Decide what an invocation's span is a child of, and what it is linked to.

    `new`: it is the run's first. `first` is the run's first trace, as its record keeps it. `headers` came with the
    message. A first invocation belongs to the first trace; a later one to whatever caused its message, if that is
    anything else, and is linked to the first.
    """
    origin = context_of(headers_of(first))
    began = trace.get_current_span(origin).get_span_context()
    if new and began.is_valid:
        return Parentage(origin, ())
    rootless = trace.set_span_in_context(trace.INVALID_SPAN, origin)
    caused = context_of(headers, rootless)
    cause = trace.get_current_span(caused).get_span_context()
    if (cause.trace_id, cause.span_id) == (began.trace_id, began.span_id):
        caused = rootless
    return Parentage(caused, (Link(began),) if began.is_valid and not new else ())
