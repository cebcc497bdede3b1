"""What readers of a run were shown of its open round: needed to show the rest, and nothing twice (EVT-12)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turnfleet_kernel.contracts.events import TERMINAL_KINDS
from turnfleet_kernel.contracts.record import Made
from turnfleet_kernel.contracts.values import Delta
from turnfleet_worker.journal import Piece, pieces
from turnfleet_worker.runstate import OpenRound, RunState

Event = Mapping[str, Any]
DELTA_KINDS = {"text_delta": "text", "reasoning_delta": "reasoning", "tool_call_delta": "tool_call"}


@dataclass(frozen=True, slots=True)
class Seen:
    """What counts of what was shown. `cut_off`: it must be taken back. `again`: what the replayed turn shows."""

    again: tuple[Piece, ...]
    cut_off: bool
    made: Made
    next_index: int


def by_run(events: Iterable[Event], root_run_id: str) -> Mapping[str, Sequence[Event]]:
    """Sort a log's events by the run that had them: a delegated run's are inside its root's `child` events."""
    runs: defaultdict[str, list[Event]] = defaultdict(list)
    for event in events:
        runs[root_run_id].append(event)
        if event["kind"] == "child":
            runs[event["event"]["run_id"]].append(event["event"])
    return runs


def look(state: RunState, events: Sequence[Event]) -> Seen:
    """Say what was shown of a run's open round. `events` are the run's own; earlier ones may be among them."""
    next_index = max(state.last_index, events[-1]["index"] + 1 if events else 0)
    counts = _that_count(events, state.round_start)
    current = state.open
    whole = current.pieces if current else ()
    shown = pieces([Delta(DELTA_KINDS[each["kind"]], each["text"]) for each in counts if each["kind"] in DELTA_KINDS])  # type: ignore[arg-type]
    first = events[0]["index"] if events else next_index
    if current is not None and first > state.round_start and (current.called or current.waiting):
        # The log is bounded, and the round's beginning has left it: what must have been told, was.
        return Seen((), cut_off=False, made=_made_before_trim(counts, current, state.rounds + 1), next_index=next_index)
    # A delegated run had ended, and the crash took the receipt: its last round is shown once more, then its end.
    over = state.parent_run_id is not None and any(each["kind"] in TERMINAL_KINDS for each in counts)
    cut_off = (bool(shown) and shown != whole) or over
    made = Made() if cut_off or current is None else _made(counts, current, state.rounds + 1)
    return Seen(() if shown == whole and not cut_off else whole, cut_off, made, next_index)


def _that_count(events: Sequence[Event], first: int) -> list[Event]:
    """Give the events of the open round that count: what a rewind took back does not."""
    counts: list[Event] = []
    for event in events:
        if event["index"] < first:
            continue
        if event["kind"] == "rewind":
            counts = []
        else:
            counts.append(event)
    return counts


def _made(events: Sequence[Event], current: OpenRound, number: int) -> Made:
    calls = {event["call_id"] for event in events if event["kind"] == "tool_call"}
    results = {event["call_id"] for event in events if event["kind"] == "tool_result"}
    order = [request.call_id or "" for request in current.turn.tool_requests]
    return Made(
        usage=(number,) if any(event["kind"] == "usage" for event in events) else (),
        tool_calls=tuple(call_id for call_id in order if call_id in calls),
        tool_results=tuple(call_id for call_id in order if call_id in results),
    )


def _made_before_trim(events: Sequence[Event], current: OpenRound, number: int) -> Made:
    """Say what must have been made before the first call started, or before the run paused."""
    known = _made(events, current, number)
    order = [request.call_id or "" for request in current.turn.tool_requests]
    results = {*known.tool_results, *current.told}
    return Made(
        usage=(number,) if current.turn.usage else (),
        tool_calls=tuple(order) if current.called else known.tool_calls,
        tool_results=tuple(call_id for call_id in order if call_id in results),
    )
