"""A run's events told in lines."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from turnfleet.cli.printing import arguments_line, one_line, safe
from turnfleet.cli.story import Line, Story
from turnfleet_kernel.contracts.events import EventKind, KernelEvent
from turnfleet_kernel.contracts.interrupts import Interrupt
from turnfleet_kernel.contracts.stages import StageTrace
from turnfleet_kernel.contracts.values import ToolOutcome, UsageDelta

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def event(kind: EventKind, **payload: Any) -> KernelEvent:
    """Return an event of this kind."""
    return KernelEvent("r", 0, kind, NOON, payload)


def tell(*events: KernelEvent) -> list[Line]:
    """Return all lines of a story."""
    story = Story()
    return [line for each in events for line in story.feed(each)]


def test_pieces_of_text_become_one_line_when_something_else_happens() -> None:
    """Deltas are put together; reasoning and usage are not told."""
    lines = tell(
        event("reasoning_delta", text="hm"),
        event("text_delta", text="I will\n"),
        event("text_delta", text="look."),
        event("tool_call", call_id="c", name="look", arguments={"where": "here", "depth": 2, "empty": None}),
        event("tool_result", call_id="c", name="look", outcome=ToolOutcome("c", "look", {"found": [1, 2]}, None, 3.2)),
    )
    assert lines == [
        Line("says", "I will look."),
        Line("calls", "look  where=here depth=2"),
        Line("gives", "look (3 ms)  found=[2 items]", "quiet"),
    ]


def test_a_rewind_takes_back_what_was_being_said() -> None:
    """A cut-off answer is not told; the new one is."""
    lines = tell(
        event("text_delta", text="Half an ans"),
        event("rewind", to_index=0),
        event("text_delta", text="A whole answer."),
        event("cancelled", reason="enough"),
    )
    assert [line.what for line in lines] == ["rewind", "says", "cancelled"]
    assert lines[1].text == "A whole answer."


def test_a_pause_is_one_line_an_interrupt() -> None:
    """Approvals show the call, questions the question."""
    approval = Interrupt("approval:c", "approval", {"tool": "pay", "arguments": {"amount": 3}})
    question = Interrupt("question:d", "question", {"question": "which?"})
    lines = tell(event("approval", interrupt=approval, interrupts=(approval, question)))
    assert lines == [
        Line("waits", "approval:c  pay  amount=3", "asks"),
        Line("waits", "question:d  which?", "asks"),
    ]


def test_what_is_running_is_known_until_it_has_ended() -> None:
    """For the live view: the names of the tools at work, and the text in the making."""
    story = Story()
    story.feed(event("tool_call", call_id="a", name="slow", arguments={}))
    story.feed(event("tool_call", call_id="b", name="quick", arguments={}))
    story.feed(event("tool_result", call_id="b", name="quick", outcome=ToolOutcome("b", "quick", error="no")))
    assert story.working == ("slow",)
    story.feed(event("text_delta", text="so "))
    assert story.speaking == "so "


@pytest.mark.parametrize("text", ["\x1b[31mred", "\x1b]0;title\x07", "a\rb", "\x9bx", "left\u202eright"])
def test_no_text_can_move_a_terminal(text: str) -> None:
    """Escape sequences and direction marks of a model or a memo become visible signs."""
    assert not any(character in safe(text) for character in "\x1b\x07\r\x9b\u202e")
    assert "\n" not in one_line(f"a\n{text}")


def test_a_long_path_keeps_its_end() -> None:
    """The name of a file says more than the folder it is in."""
    arguments: Mapping[str, Any] = {"path": "/very" * 40 + "/report.md", "x": "y"}
    assert arguments_line(arguments).startswith("path=…")
    assert "/report.md x=y" in arguments_line(arguments)


def test_what_goes_on_now_is_said_with_its_cost() -> None:
    """For the live view: tools at work, decisions that are waited for, tokens so far."""
    story = Story()
    assert story.now == "the agent is at work …"
    story.feed(event("usage", usage=UsageDelta(), total=UsageDelta(input_tokens=10, output_tokens=5), round=1))
    story.feed(event("tool_call", call_id="a", name="slow", arguments={}))
    assert story.now == "slow …  15 tokens so far"
    question = Interrupt("question:d", "question", {"question": "which?"})
    story.feed(event("question", interrupt=question, interrupts=(question,)))
    assert story.now == "waits for 1 decision: turnfleet resume r  15 tokens so far"
    story.feed(event("resumed", attempt=2))
    assert story.now == "the agent is at work …  15 tokens so far"


def test_stages_are_told_when_they_took_time_or_failed() -> None:
    """Most run before each call and take none."""
    traces = [StageTrace("quick", "pre_tool", "ok", 3.0), StageTrace("slow", "pre_tool", "ok", 1_250.0)]
    traces.append(StageTrace("bad", "pre_tool", "failed", 1.0))
    assert tell(*(event("stage", trace=trace) for trace in traces)) == [
        Line("stage", "slow  (1.2 s)", "quiet"),
        Line("stage", "bad  failed", "bad"),
    ]
