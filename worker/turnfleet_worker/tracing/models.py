"""A span `chat` around each turn that a model is asked for (docs/design/tracing.md)."""

from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, aclosing
from time import monotonic
from typing import Any

from opentelemetry.trace import Span, SpanKind, use_span

from turnfleet.wire import spans
from turnfleet_kernel.contracts.values import Delta, ModelTurn
from turnfleet_kernel.ports import ModelPort, ModelRound, Transcript
from turnfleet_worker.tracing.content import input_attributes, output_attributes
from turnfleet_worker.tracing.names import (
    FINISH_REASONS,
    FIRST_CHUNK,
    MODEL,
    OPERATION,
    PROVIDER,
    REGISTERED,
    STREAM,
    run_here,
    usage_attributes,
)

__all__ = ["TracedModel"]


class TracedModel:
    """A `ModelPort` around another; `name` is what the registry calls it. Without an SDK, the other one alone.

    A port that has attributes `model_name` and `provider_name` says with them what its provider is asked for.
    """

    def __init__(self, inner: ModelPort, name: str) -> None:
        self.inner = inner
        model = getattr(inner, "model_name", None) or name
        self._span_name = f"chat {model}"
        self._attributes: dict[str, Any] = {
            OPERATION: "chat",
            PROVIDER: getattr(inner, "provider_name", None),
            MODEL: model,
            REGISTERED: name,
        }

    async def invoke(self, transcript: Transcript) -> ModelTurn:
        """Ask for a whole turn."""
        with spans.span_of(self._span_name, self._about(transcript), kind=SpanKind.CLIENT) as span:
            turn = await self.inner.invoke(transcript)
            _note_turn(span, turn)
            return turn

    def stream(self, transcript: Transcript) -> ModelRound:
        """Ask for a turn piece by piece; the span begins with the first piece that is asked for."""
        inner = self.inner.stream(transcript)
        if not spans.tracing_on():
            return inner
        return _TracedRound(inner, self._span_name, {**self._about(transcript), STREAM: True})

    def _about(self, transcript: Transcript) -> dict[str, Any]:
        if not spans.tracing_on():
            return self._attributes
        said = input_attributes(transcript) if spans.shows_content() else {}
        return {**self._attributes, spans.RUN_ID: run_here(), **said}


class _TracedRound:
    def __init__(self, inner: ModelRound, span_name: str, about: dict[str, Any]) -> None:
        self._inner = inner
        self._span_name = span_name
        self._about = about
        self._turn: ModelTurn | None = None
        self._error: Exception | None = None

    async def deltas(self) -> AsyncIterator[Delta]:
        span = spans.begin(self._span_name, self._about, kind=SpanKind.CLIENT)
        began = monotonic()
        waiting = True
        try:
            async with aclosing(self._inner.deltas()) as pieces:  # type: ignore[type-var]
                while True:
                    # Current only while the model works: a suspended generator's context is its consumer's.
                    with _within(span):
                        delta = await anext(pieces, None)
                    if delta is None:
                        break
                    if waiting:
                        span.set_attribute(FIRST_CHUNK, monotonic() - began)
                        waiting = False
                    yield delta
            self._finish(span)
        except Exception as error:
            spans.fail(span, error)
            raise
        except BaseException:
            span.set_attribute(spans.CUT_SHORT, value=True)
            raise
        finally:
            span.end()

    def result(self) -> ModelTurn:
        if self._error is not None:
            raise self._error
        return self._inner.result() if self._turn is None else self._turn

    def _finish(self, span: Span) -> None:
        """Ask for the whole turn while the span is open; what goes wrong is the loop's to see, when it asks."""
        try:
            self._turn = self._inner.result()
        except Exception as error:  # noqa: BLE001 - raised by result()
            self._error = error
            spans.fail(span, error)
        else:
            _note_turn(span, self._turn)


def _within(span: Span) -> AbstractContextManager[Span]:
    return use_span(span, record_exception=False, set_status_on_exception=False)


def _note_turn(span: Span, turn: ModelTurn) -> None:
    if not span.is_recording():
        return
    span.set_attributes(usage_attributes(turn.usage))
    if turn.stop_reason is not None:
        span.set_attribute(FINISH_REASONS, (turn.stop_reason,))
    if spans.shows_content():
        span.set_attributes(output_attributes(turn))
