"""A run's events told in lines: what matters, one line each, text put together again from its pieces.

It prints nothing. `Story.feed` says which lines an event completes, and `speaking` is the text that is still coming:
the plain and the live display differ only in what they do with those.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from turnfleet.cli.printing import arguments_line, one_line, safe, short_value
from turnfleet_kernel.contracts.events import PAUSE_KINDS, TERMINAL_KINDS, KernelEvent

TEXT_LIMIT = 2_000
SECOND_MS = 1_000
SLOW_STAGE_MS = 100
"""A stage that took less is not told: most run before each call, and take no time."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the story: a word for what happened, the rest, and how good or bad it is.

    `whole` is what was said with its own line breaks, where there is room for them.
    """

    what: str
    text: str
    mood: str = "plain"  # plain | quiet | good | bad | asks
    whole: str = field(default="", compare=False)


class Story:
    """Tells one run; feed it every event, in order."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._names: dict[str, str] = {}
        self._waiting = 0
        self._run_id = ""
        self._tokens = 0

    @property
    def speaking(self) -> str:
        """The text of the turn that is still being written."""
        return safe("".join(self._pieces))

    @property
    def working(self) -> tuple[str, ...]:
        """The names of the tools that are running."""
        return tuple(self._names.values())

    @property
    def now(self) -> str:
        """What goes on at the moment, and what it has cost so far."""
        tokens = f"  {self._tokens} tokens so far" if self._tokens else ""
        if self._waiting:
            decisions = f"{self._waiting} decision{'s' if self._waiting > 1 else ''}"
            return f"waits for {decisions}: turnfleet resume {self._run_id}{tokens}"
        return (f"{', '.join(self.working)} …" if self._names else "the agent is at work …") + tokens

    def feed(self, event: KernelEvent) -> list[Line]:
        """Return the lines that this event completes, in order."""
        if event.kind == "text_delta":
            self._pieces.append(event.text)
            return []
        if event.kind == "usage":
            self._tokens = event.total.total_tokens
            return []
        if event.kind in {"reasoning_delta", "tool_call_delta"}:
            return []
        return [*self._said(event), *self._line(event)]

    def _said(self, event: KernelEvent) -> Iterator[Line]:
        if event.kind == "rewind":
            # What was said since then does not count: the turn is told again.
            self._pieces.clear()
        text = "".join(self._pieces).strip()
        if text:
            yield Line("says", one_line(text, TEXT_LIMIT), whole=safe(text))
        self._pieces.clear()

    def _line(self, event: KernelEvent) -> Iterator[Line]:
        kind, self._run_id = event.kind, event.run_id
        self._waiting = len(event.interrupts) if kind in PAUSE_KINDS else 0
        if kind in PAUSE_KINDS:
            self._names.clear()
            for interrupt in event.interrupts:
                yield Line("waits", f"{interrupt.id}  {asked(interrupt.payload)}", "asks")
        elif kind in TERMINAL_KINDS:
            self._names.clear()
            yield _ending(event)
        elif kind in {"tool_call", "tool_result", "progress"}:
            yield self._of_tool(event)
        elif kind == "child":
            yield Line("child", f"{event.payload['run_id']}  {event.event.kind}", "quiet")
        elif kind == "resumed":
            yield Line("resumed", f"attempt {event.payload.get('attempt', '')}".strip(), "quiet")
        elif kind == "rewind":
            yield Line("rewind", f"what was shown from event {event.to_index} on does not count", "quiet")
        elif kind == "stage" and (event.trace.outcome == "failed" or event.trace.duration_ms >= SLOW_STAGE_MS):
            failed = event.trace.outcome == "failed"
            said = "failed" if failed else f"({span(event.trace.duration_ms)})"
            yield Line("stage", f"{event.trace.stage_id}  {said}", "bad" if failed else "quiet")

    def _of_tool(self, event: KernelEvent) -> Line:
        if event.kind == "tool_call":
            self._names[event.call_id] = event.name
            return Line("calls", f"{event.name}  {arguments_line(event.arguments)}".rstrip())
        if event.kind == "tool_result":
            self._names.pop(event.call_id, None)
            return _result(event.name, event.outcome)
        return Line("works", f"{self._names.get(event.call_id, '')}  {short_value(event.value)}".strip(), "quiet")


def asked(payload: Any) -> str:
    """Say on one line what a person is asked: the call with its arguments, or the question."""
    if payload.get("question") is not None:
        return one_line(str(payload["question"]))
    return f"{payload.get('tool', '')}  {arguments_line(payload.get('arguments') or {})}".strip()


def span(milliseconds: float) -> str:
    """Return how long something took."""
    return f"{milliseconds:.0f} ms" if milliseconds < SECOND_MS else f"{milliseconds / SECOND_MS:.1f} s"


def _result(name: str, outcome: Any) -> Line:
    took = f" ({span(outcome.duration_ms)})" if outcome.duration_ms else ""
    if outcome.error is not None:
        return Line("error", f"{name}  {one_line(outcome.error, 200)}", "bad")
    value = outcome.value
    shown = arguments_line(value) if isinstance(value, Mapping) else short_value(value)
    return Line("gives", f"{name}{took}  {shown}", "quiet")


def _ending(event: KernelEvent) -> Line:
    if event.kind == "done":
        outcome = event.outcome
        why = "" if outcome.stop_reason in {None, "stop", "end_turn"} else f"  ({outcome.stop_reason})"
        # Its duration is that of the last invocation only, so it is not told: a run that paused took longer.
        tokens = f"  {outcome.usage.total_tokens} tokens" if outcome.usage.total_tokens else ""
        return Line("done", f"run {event.run_id}{tokens}{why}", "good")
    if event.kind == "error":
        return Line("failed", one_line(str(event.error), 500), "bad")
    return Line(event.kind, one_line(str(event.payload.get("reason") or "")), "bad")
