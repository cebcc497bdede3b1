"""The live view: every finished line stays, cut at the edge unless it is something said."""

import io
from datetime import UTC, datetime
from typing import Any

from rich.console import Console

from turnfleet.cli.display import LiveDisplay
from turnfleet_kernel.contracts.events import KernelEvent

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def event(kind: str, **payload: Any) -> KernelEvent:
    """Return an event of this kind."""
    return KernelEvent("r", 0, kind, NOON, payload)


def test_calls_are_cut_at_the_edge_and_what_is_said_wraps() -> None:
    """One line a call, whatever its arguments; a text keeps all its words under its own indent."""
    out = io.StringIO()
    console = Console(file=out, width=30, force_terminal=False, highlight=False)
    with LiveDisplay(console) as display:
        display.show(event("tool_call", call_id="c", name="look", arguments={"where": "under the old table"}))
        display.show(event("text_delta", text="There is nothing under the old table."))
        display.show(event("cancelled", reason="enough"))
    lines = [line.rstrip() for line in out.getvalue().splitlines() if line.strip()]
    assert lines == [
        " → look  where=under the old …",
        " ● There is nothing under the",
        "   old table.",
        " · cancelled enough",
    ]
