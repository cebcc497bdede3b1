"""What an invocation's span hangs on, decided from the record and the message's headers alone."""

from typing import Any

import pytest
from opentelemetry import baggage, trace
from tracing.conftest import Tape

from turnfleet.wire.spans import span_of
from turnfleet.wire.trace_context import (
    Parentage,
    carrier_of,
    carrier_text,
    current_headers,
    headers_of,
    is_trace,
    parentage,
)

ENQUEUE = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "baggage": "customer=c7"}
RESUME = {"traceparent": "00-11111111111111111111111111111111-2222222222222222-01"}
FIRST = carrier_text(ENQUEUE)


def parent(place: Parentage) -> str | None:
    """Give the id of the span that it hangs on; None for a root."""
    context = trace.get_current_span(place.context).get_span_context()
    return f"{context.span_id:016x}" if context.is_valid else None


def linked(place: Parentage) -> list[str]:
    """Give the ids of what it is linked to."""
    return [f"{link.context.span_id:016x}" for link in place.links]


@pytest.mark.parametrize(
    ("new", "first", "headers", "expected"),
    [
        pytest.param(True, FIRST, ENQUEUE, ("b7ad6b7169203331", []), id="the first invocation"),
        pytest.param(True, FIRST, {}, ("b7ad6b7169203331", []), id="offered by the sweep"),
        pytest.param(True, FIRST, RESUME, ("b7ad6b7169203331", []), id="published by somebody else"),
        pytest.param(True, None, RESUME, ("2222222222222222", []), id="nothing recorded"),
        pytest.param(True, None, {}, (None, []), id="nobody traces"),
        pytest.param(False, FIRST, RESUME, ("2222222222222222", ["b7ad6b7169203331"]), id="resumed"),
        pytest.param(False, FIRST, {}, (None, ["b7ad6b7169203331"]), id="recovered"),
        pytest.param(False, FIRST, ENQUEUE, (None, ["b7ad6b7169203331"]), id="the first message, delivered again"),
        pytest.param(False, None, RESUME, ("2222222222222222", []), id="resumed, nothing recorded"),
        pytest.param(False, "no JSON", {}, (None, []), id="a record that cannot be read"),
    ],
)
def test_a_later_invocation_is_linked_to_the_first_trace_and_below_its_own_cause(
    new: bool, first: str | None, headers: dict[str, str], expected: tuple[str | None, list[str]]
) -> None:
    """Below the enqueue only the first time; a message's header is a cause unless it is the first trace itself."""
    place = parentage(new=new, first=first, headers=headers)
    assert (parent(place), linked(place)) == expected


def test_baggage_of_the_enqueue_is_there_in_every_invocation(tape: Tape) -> None:
    """It describes whom the run is for, which no resume changes; tools and the services that they call see it."""
    for new, headers in ((True, ENQUEUE), (False, {}), (False, RESUME)):
        with span_of("process", {}, place=parentage(new=new, first=FIRST, headers=headers)):
            assert current_headers()["baggage"] == "customer=c7"
        assert baggage.get_baggage("customer") is None
    assert len(tape.seen) == 3


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"id": "r1", **ENQUEUE}, ENQUEUE),
        ({"traceparent": 7, "tracestate": ["x"], "baggage": None}, {}),
        ({"baggage": "k=" + "v" * 8192, **RESUME}, RESUME),
        ({"traceparent": ""}, {}),
        ("no mapping", {}),
        (None, {}),
    ],
)
def test_only_the_propagators_fields_are_taken_from_headers(headers: Any, expected: dict[str, str]) -> None:
    """Anybody may write a message: what is no text, or longer than any tracer writes, is left out."""
    assert carrier_of(headers) == expected
    assert headers_of(carrier_text(expected)) == expected


def test_a_record_keeps_a_trace_or_it_does_not() -> None:
    """Baggage alone, or nonsense, is no trace."""
    kept = [FIRST, carrier_text({"baggage": "a=b"}), carrier_text({"traceparent": "00-nonsense"}), "[]", None]
    assert list(map(is_trace, kept)) == [True, False, False, False, False]
