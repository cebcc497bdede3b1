"""From a journal back to where the run stood: one fold for resume, recovery and retry (DESIGN 2, CONTRACT HK-3).

`fold` is pure. It gives the kernel's own `PauseRecord`, so that a run which a person let go on, one that lost its
worker and one that is tried again all enter the loop by the same door.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from turnfleet_kernel.contracts.interrupts import Decided, Decision, Interrupt
from turnfleet_kernel.contracts.json import (
    decision_from_json,
    interrupt_from_json,
    tool_outcome_from_json,
    tool_request_from_json,
    turn_from_json,
)
from turnfleet_kernel.contracts.record import Made, PauseRecord
from turnfleet_kernel.contracts.values import NO_USAGE, Delta, ModelTurn, ToolOutcome, ToolRequest, UsageDelta
from turnfleet_kernel.ports import ConversationPort
from turnfleet_worker.journal import Entry, Piece, pieces, pieces_of_text

DELTA_KINDS = {"text_delta": "text", "reasoning_delta": "reasoning", "tool_call_delta": "tool_call"}


@dataclass(slots=True)
class OpenRound:
    """The round that a journal ends in: its turn, and what is known of its calls."""

    turn: ModelTurn
    pieces: tuple[Piece, ...]
    receipts: dict[str, ToolOutcome] = field(default_factory=dict)
    starts: dict[str, Entry] = field(default_factory=dict)
    interrupts: dict[str, Interrupt] = field(default_factory=dict)
    waiting: tuple[str, ...] = ()
    decisions: dict[str, Decision] = field(default_factory=dict)
    children: dict[str, PauseRecord] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Folded:
    """Where a run stood.

    `doubtful`: calls that started and left no receipt, by call id. `decisions`: those on the open interrupts of
    `record`. `cut_off`: readers were shown a part of a turn that does not count; they must rewind to `round_start`.
    """

    record: PauseRecord
    decisions: Mapping[str, Decision]
    doubtful: Mapping[str, Entry]
    round_start: int
    cut_off: bool


@dataclass(slots=True)
class _Fold:
    conversation: ConversationPort
    transcript: Any = None
    opened: bool = False
    resolved: dict[str, Any] | None = None
    model: str | None = None
    usage: UsageDelta = NO_USAGE
    text: str = ""
    call_ids: list[str] = field(default_factory=list)
    rounds: int = 0
    tool_outcomes: list[ToolOutcome] = field(default_factory=list)
    interrupt_ids: list[str] = field(default_factory=list)
    round_start: int = 0
    open: OpenRound | None = None

    def take(self, entry: Entry) -> None:
        """Apply one entry. Raises ValueError for a kind that this build does not know: guessing would lose work."""
        match entry["k"]:
            case "opened":
                self.transcript = self.conversation.load(entry["transcript"])
                self.opened, self.resolved, self.round_start = True, entry.get("resolved", {}), entry["at"]
            case "turn":
                # What was shown is in the pieces; the turn itself is what the record keeps of it.
                turn = replace(turn_from_json(entry), shown=None)
                shown = entry.get("pieces")
                stretches = pieces_of_text(turn.text) if shown is None else tuple((kind, text) for kind, text in shown)
                self.open = OpenRound(turn, stretches)
                self.model = entry.get("model", self.model)
            case "start":
                self._round(entry).starts[entry["id"]] = entry
            case "receipt":
                outcome = tool_outcome_from_json(entry["outcome"])
                self._round(entry).starts.pop(outcome.call_id, None)
                self._round(entry).receipts[outcome.call_id] = outcome
            case "paused":
                self._pause(self._round(entry), entry)
            case "decision":
                self._round(entry).decisions[entry["interrupt"]] = decision_from_json(entry["decision"])
            case "closed":
                self._close(self._round(entry), entry)
            case "transcript":
                self.transcript = self.conversation.load(entry["transcript"])
            case kind:
                raise ValueError(f"journal entry {kind!r} is unknown to this release: a newer worker wrote it")

    def _round(self, entry: Entry) -> OpenRound:
        if self.open is None:
            raise ValueError(f"journal entry {entry['k']!r} stands outside a round")
        return self.open

    def _pause(self, current: OpenRound, entry: Entry) -> None:
        for interrupt in map(interrupt_from_json, entry["interrupts"]):
            current.interrupts[interrupt.id] = interrupt
            if interrupt.id not in self.interrupt_ids:
                self.interrupt_ids.append(interrupt.id)
            # Whoever asks has had no effect yet: a call that waits is not in doubt.
            current.starts.pop(interrupt.call_id or "", None)
        current.waiting = tuple(each["id"] for each in entry["interrupts"])
        current.children = {
            call_id: PauseRecord.model_validate(child) for call_id, child in entry.get("children", {}).items()
        }
        for call_id in current.children:
            current.starts.pop(call_id, None)

    def _close(self, current: OpenRound, entry: Entry) -> None:
        reserved = current.turn.tool_requests
        requests: tuple[ToolRequest, ...] = (
            tuple(map(tool_request_from_json, entry["requests"])) if "requests" in entry else reserved
        )
        others = map(tool_outcome_from_json, entry.get("outcomes", ()))
        known = {**current.receipts, **{outcome.call_id: outcome for outcome in others}}
        outcomes = [known[request.call_id or ""] for request in requests]
        self.conversation.close_round(self.transcript, current.turn, requests, outcomes)
        self.usage = sum((outcome.usage for outcome in outcomes), self.usage + current.turn.usage)
        self.text += current.turn.text
        self.call_ids += [request.call_id or "" for request in reserved]
        self.rounds += 1
        self.tool_outcomes += outcomes
        self.round_start = entry["at"]
        self.open = None


def fold(
    entries: Sequence[Entry],
    events: Sequence[Mapping[str, Any]],
    *,
    conversation: ConversationPort,
    run_id: str,
    plan_id: str,
    ran_seconds: float,
    next_index: int,
) -> Folded:
    """Fold a journal.

    `events` are the run's events from the open round's first one (see `round_start`); earlier ones may be among
    them. `next_index` is the index of the event that comes next.
    """
    state = _Fold(conversation)
    for entry in entries:
        state.take(entry)
    current = state.open
    seen = _since_rewind(events, state.round_start)
    shown = pieces([Delta(DELTA_KINDS[event["kind"]], event["text"]) for event in seen if event["kind"] in DELTA_KINDS])  # type: ignore[arg-type]
    whole = current.pieces if current else ()
    cut_off = bool(shown) and shown != whole
    again = () if shown == whole else whole
    record = PauseRecord(
        run_id=run_id,
        root_run_id=run_id,
        plan_id=plan_id,
        transcript=conversation.dump(state.transcript) if state.opened else None,
        turn=current.turn if current else None,
        shown=tuple(Delta(kind, text) for kind, text in again),  # type: ignore[arg-type]
        outcomes=dict(current.receipts) if current else {},
        decisions=_settled(current) if current else {},
        children=current.children if current else {},
        model=state.model,
        usage=state.usage,
        text=state.text,
        call_ids=tuple(state.call_ids),
        rounds=state.rounds,
        ran_seconds=ran_seconds,
        tool_outcomes=tuple(state.tool_outcomes),
        next_index=next_index,
        interrupts=tuple(current.interrupts[name] for name in current.waiting) if current else (),
        interrupt_ids=tuple(state.interrupt_ids),
        resolved=state.resolved,
        made=Made() if cut_off or current is None else _made(seen, current.turn, state.rounds + 1),
    )
    return Folded(
        record=record,
        decisions={name: current.decisions[name] for name in current.waiting if name in current.decisions}
        if current
        else {},
        doubtful=dict(current.starts) if current else {},
        round_start=state.round_start,
        cut_off=cut_off,
    )


def round_start(entries: Sequence[Entry]) -> int:
    """Give the index of the open round's first event: where the round before it, or the opening, ended."""
    return next((entry["at"] for entry in reversed(entries) if entry["k"] in {"opened", "closed"}), 0)


def _settled(current: OpenRound) -> dict[str, Decided]:
    """Give the decisions of earlier pauses of the round."""
    return {
        name: Decided(current.interrupts[name], decision)
        for name, decision in current.decisions.items()
        if name not in current.waiting
    }


def _since_rewind(events: Sequence[Mapping[str, Any]], first: int) -> list[Mapping[str, Any]]:
    """Give the events of the open round that count: what a rewind took back does not."""
    seen: list[Mapping[str, Any]] = []
    for event in events:
        if event["index"] < first:
            continue
        if event["kind"] == "rewind":
            seen = []
        else:
            seen.append(event)
    return seen


def _made(events: Sequence[Mapping[str, Any]], turn: ModelTurn, number: int) -> Made:
    calls = {event["call_id"] for event in events if event["kind"] == "tool_call"}
    results = {event["call_id"] for event in events if event["kind"] == "tool_result"}
    order = [request.call_id or "" for request in turn.tool_requests]
    return Made(
        usage=(number,) if any(event["kind"] == "usage" for event in events) else (),
        tool_calls=tuple(call_id for call_id in order if call_id in calls),
        tool_results=tuple(call_id for call_id in order if call_id in results),
    )
