"""What a run writes down while it goes: one small JSON object an entry, in the order of happening (DESIGN 2).

The shapes stand in docs/design/walls.md; `fold.py` reads them back. Nothing rewrites the transcript: an entry says
only what was added, so a journal grows with the transcript and never with its square.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from turnfleet_kernel.contracts.canonical import digest
from turnfleet_kernel.contracts.frozen import thaw
from turnfleet_kernel.contracts.json import (
    interrupt_to_json,
    tool_outcome_to_json,
    tool_request_to_json,
    turn_to_json,
)
from turnfleet_kernel.contracts.plain import plain_json
from turnfleet_kernel.contracts.record import PauseRecord
from turnfleet_kernel.contracts.values import Delta, ModelTurn, ToolOutcome, ToolRequest

Entry = dict[str, Any]
Piece = tuple[str, str]
"""A stretch of a turn as it was shown: the kind of delta, and its text."""


def pieces(deltas: Sequence[Delta]) -> tuple[Piece, ...]:
    """Join neighbouring deltas of one kind: how a text was cut up does not matter, what it said does."""
    return tuple(
        (kind, "".join(delta.text for delta in group)) for kind, group in groupby(deltas, lambda delta: delta.kind)
    )


def pieces_of_text(text: str) -> tuple[Piece, ...]:
    """Give what a turn shows that has nothing but its text to show."""
    return (("text", text),) if text else ()


def opened(transcript: Any, resolved: Mapping[str, Any] | None, at: int, trace: str | None = None) -> Entry:
    """Record the transcript as the conversation port dumped it at the start, and the resolved inputs (STG-8).

    `trace`: the run's first trace, where its record has none.
    """
    entry: Entry = {"k": "opened", "transcript": plain_json(transcript), "at": at}
    if resolved:
        entry["resolved"] = plain_json(thaw(resolved))
    if trace is not None:
        entry["trace"] = trace
    return entry


def of_child(entry: Entry, run_id: str, call_id: str, plan_id: str) -> Entry:
    """Give an entry to a delegated run. Its first one says which call of its parent runs it, and what plan it has."""
    if entry["k"] == "opened":
        return {**entry, "run": run_id, "call": call_id, "plan": plan_id}
    return {**entry, "run": run_id}


def turn(said: ModelTurn, shown: Sequence[Delta], model: str | None, at: int) -> Entry:
    """Record a model turn: it is not bought again. `shown` is what was streamed, kept where it is not just the text."""
    entry: Entry = {"k": "turn", **turn_to_json(said), "at": at}
    streamed = pieces(shown)
    if shown and streamed != pieces_of_text(said.text):
        entry["pieces"] = [list(piece) for piece in streamed]
    if model is not None:
        entry["model"] = model
    return entry


def start(request: ToolRequest) -> Entry:
    """Record that a call is about to be made, as its arguments now stand."""
    return {
        "k": "start",
        "id": request.call_id,
        "name": request.name,
        "digest": digest(plain_json(thaw(request.arguments))),
    }


def receipt(outcome: ToolOutcome) -> Entry:
    """Record what a call gave: it is not made again."""
    return {"k": "receipt", "outcome": tool_outcome_to_json(outcome)}


def closed(
    requests: Sequence[ToolRequest],
    outcomes: Sequence[ToolOutcome],
    *,
    reserved: Sequence[ToolRequest],
    receipts: Mapping[str, ToolOutcome],
    at: int,
) -> Entry:
    """Record that a round is over. Only what no earlier entry says is written: amended requests, other outcomes."""
    entry: Entry = {"k": "closed", "at": at}
    written = [tool_request_to_json(request) for request in requests]
    if written != [tool_request_to_json(request) for request in reserved]:
        entry["requests"] = written
    unwritten = [outcome for outcome in outcomes if receipts.get(outcome.call_id) != outcome]
    if unwritten:
        entry["outcomes"] = [tool_outcome_to_json(outcome) for outcome in unwritten]
    return entry


def transcript(dumped: Any) -> Entry:
    """Record a transcript that a stage put in the place of the run's own (STG-3)."""
    return {"k": "transcript", "transcript": plain_json(dumped)}


def paused(record: PauseRecord) -> Entry:
    """Record what a run waits for, and the outcomes of its round that are a person's decision and no call's receipt."""
    entry: Entry = {
        "k": "paused",
        "interrupts": [interrupt_to_json(each) for each in record.interrupts],
        "at": record.next_index,
    }
    said = {each.interrupt.call_id for each in record.decisions.values() if each.is_outcome}
    outcomes = [outcome for call_id, outcome in record.outcomes.items() if call_id in said]
    if outcomes:
        entry["outcomes"] = [tool_outcome_to_json(outcome) for outcome in outcomes]
    return entry


def all_paused(record: PauseRecord) -> list[Entry]:
    """Record what a run waits for, and what each run waits for that waits within it, those first.

    `ran` is a delegated run's running time so far, in seconds: its root's is in the record of the store.
    """
    below = [entry for child in record.children.values() if child.interrupts for entry in _child_paused(child)]
    return [*below, paused(record)]


def _child_paused(record: PauseRecord) -> list[Entry]:
    *below, own = all_paused(record)
    return [*below, {**own, "run": record.run_id, "ran": round(record.ran_seconds, 3)}]
