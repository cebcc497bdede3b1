"""The open round of a run: what has happened since the last closed one (HK-3)."""

from collections.abc import Callable, Mapping
from typing import Final

from turnfleet_kernel.contracts.interrupts import Decided, InvocationPaused
from turnfleet_kernel.contracts.record import PauseRecord
from turnfleet_kernel.contracts.values import ModelTurn, ToolOutcome, ToolRequest, UsageDelta

__all__ = ["OpenRound"]

_NO_DECISIONS: Final[Mapping[str, Decided]] = {}
_NO_CHILDREN: Final[Mapping[str, PauseRecord]] = {}


class OpenRound:
    """One model round in the making. Read it while the run is alive; only the kernel writes it.

    ``number`` counts from 1 over all invocations of the run. ``turn`` and ``requests`` (with their reserved ids,
    before any stage amended them) appear when the turn was accepted. ``outcomes`` grows as calls end, by call id.
    ``usage``, ``text``, ``call_ids`` and ``tool_outcomes`` are the run's accumulators as they were when the round
    was opened (the last two as counts).
    """

    __slots__ = (
        "call_ids",
        "calls_made",
        "children",
        "decisions",
        "number",
        "outcomes",
        "paused",
        "replayed",
        "requests",
        "results_made",
        "stopped_children",
        "text",
        "tool_outcomes",
        "turn",
        "usage",
        "usage_made",
    )

    def __init__(self, number: int, usage: UsageDelta, text: str, call_ids: int, tool_outcomes: int) -> None:
        """Open a round."""
        self.number = number
        self.usage = usage
        self.text = text
        self.call_ids = call_ids
        self.tool_outcomes = tool_outcomes
        self.turn: ModelTurn | None = None
        self.requests: tuple[ToolRequest, ...] = ()
        self.outcomes: dict[str, ToolOutcome] = {}
        self.paused: dict[str, InvocationPaused] = {}
        """What calls are waiting for, by call id."""
        self.replayed = False
        self.decisions: Mapping[str, Decided] = _NO_DECISIONS
        self.children: Mapping[str, PauseRecord] = _NO_CHILDREN
        """Records of delegated runs from earlier invocations, by call id."""
        self.stopped_children: dict[str, Callable[[], PauseRecord]] = {}
        """How to record delegated runs that stopped in this one, by call id (DEL-6)."""
        self.usage_made = False
        self.calls_made: set[str] = set()
        self.results_made: set[str] = set()

    def replay(self, record: PauseRecord) -> None:
        """Be the round that stands open in a record: know what it knows (HK-3, HK-4)."""
        self.replayed = True
        self.decisions = record.decisions
        self.children = record.children
        self.outcomes.update(record.outcomes)
        self.usage_made = self.number in record.made.usage
        self.calls_made.update(record.made.tool_calls)
        self.results_made.update(record.made.tool_results)
