"""The live view: every finished line stays, cut at the edge unless it is something said."""

import io
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console
from support.waiting import eventually

from turnfleet.cli.display import Display, LiveDisplay
from turnfleet_kernel.contracts.events import EventKind, KernelEvent

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def event(kind: EventKind, **payload: Any) -> KernelEvent:
    """Return an event of this kind."""
    return KernelEvent("r", 0, kind, NOON, payload)


class Screen(io.StringIO):
    """What was written, as it came (`raw`), without colours and moves (`shown`), and since the last look (`last`)."""

    def __init__(self, width: int, height: int) -> None:
        super().__init__()
        self.size = (width, height)

    @property
    def raw(self) -> str:
        """Everything that was written."""
        return self.getvalue()

    @property
    def shown(self) -> str:
        """The same without escape codes; a live part that is drawn over another stands below it."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.raw).replace("\r", "\n")

    @property
    def last(self) -> str:
        """What stands after the last time that the live part was taken away."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.raw.rpartition("\x1b[2K")[2])


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


def screen(width: int, height: int) -> tuple[Screen, Display]:
    """Give a terminal of this size, and what the live view shows on it."""
    out = Screen(width, height)
    return out, LiveDisplay(Console(file=out, width=width, height=height, force_terminal=True, highlight=False))


def test_of_a_text_that_is_longer_than_the_screen_the_end_is_seen() -> None:
    """There it is being written; when it is whole, all of it scrolls by, with its own line breaks."""
    out, display = screen(40, 8)
    with display:
        display.show(event("text_delta", text="\n".join(f"line {number}" for number in range(30))))
        eventually(lambda: "line 29" in out.shown)
        assert "line 3" not in out.shown.replace("line 29", "")
        display.show(event("cancelled", reason="enough"))
    assert [line.rstrip() for line in out.shown.splitlines() if "line 3" in line][:1] == ["   line 3"]


def test_a_cut_off_answer_leaves_the_screen() -> None:
    """A rewind takes back what was still being said."""
    out, display = screen(60, 20)
    with display:
        display.show(event("text_delta", text="Half an ans"))
        eventually(lambda: "Half an ans" in out.shown)
        display.show(event("rewind", to_index=0))
        display.show(event("text_delta", text="A whole answer."))
        display.show(event("cancelled", reason="enough"))
    assert "A whole answer." in out.shown
    assert [line for line in out.last.splitlines() if "Half" in line] == []


def test_lines_that_come_while_the_spinner_turns_stand_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is being drawn at the moment, in another thread."""
    monkeypatch.setattr("turnfleet.cli.display.SPINS_PER_SECOND", 10_000)
    for _ in range(100):
        out, display = screen(40, 20)
        with display:
            display.show(event("tool_call", call_id="c", name="look", arguments={"at": "all of it" * 9}))
            display.show(event("text_delta", text="This was seen, and it went on with it."))
            display.show(event("cancelled", reason="enough"))
        assert max(cell_len(line) for line in out.shown.splitlines()) <= 40


@pytest.mark.parametrize("width", [20, 60])
def test_no_line_is_wider_than_the_screen(width: int) -> None:
    """Wide characters, emoji and escape codes of a model included; none of the latter is obeyed."""
    out, display = screen(width, 20)
    with display:
        display.show(
            event("text_delta", text="\x1b]0;title\x07\u4f60\u597d\u4e16\u754c " * 9 + "\N{PARTY POPPER}" * 40)
        )
        display.show(
            event("tool_call", call_id="c", name="\u652f\u6255", arguments={"memo": "\x1b[2J" + "\u754c" * 80})
        )
        display.show(event("cancelled", reason="enough"))
    assert max(cell_len(line) for line in out.shown.splitlines()) <= width
    assert "\x1b]0;" not in out.raw
    assert "\x1b[2Jx" not in out.raw
