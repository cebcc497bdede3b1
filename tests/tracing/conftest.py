"""An SDK for one test: other tests of this process go on without."""

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from support.spans import LinesExporter, Seen

from turnfleet.wire import spans


class Tape:
    """What was recorded so far."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(LinesExporter(self.lines.append)))
        self.tracer = provider.get_tracer("turnfleet")

    @property
    def seen(self) -> list[Seen]:
        """The finished spans."""
        return [Seen.read(line) for line in self.lines]

    def one(self, name: str) -> Seen:
        """Give the only finished span whose name begins so."""
        (found,) = (span for span in self.seen if span.name.startswith(name))
        return found


@pytest.fixture
def tape(monkeypatch: pytest.MonkeyPatch) -> Tape:
    """Record spans of this test.

    Put where turnfleet asks for its tracer, not installed as the process's provider: that can be done only once, and
    would stay for all tests that come after.
    """
    recorded = Tape()
    monkeypatch.setattr(spans, "_tracer", recorded.tracer)
    monkeypatch.setattr(spans, "tracing_on", lambda: True)
    return recorded
