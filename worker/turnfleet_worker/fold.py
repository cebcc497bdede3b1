"""From a journal back to where the run stood: one fold for resume, recovery and retry (DESIGN 2, CONTRACT HK-3).

`fold` is pure. It gives the kernel's own `PauseRecord`, so that a run which a person let go on, one that lost its
worker and one that is tried again all enter the loop by the same door. Runs that it delegated to are in it (DEL-6).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turnfleet_kernel.contracts.interrupts import Decision
from turnfleet_kernel.contracts.record import PauseRecord
from turnfleet_kernel.contracts.values import Delta, ToolOutcome
from turnfleet_kernel.ports import ConversationPort
from turnfleet_worker.journal import Entry
from turnfleet_worker.runstate import RunState
from turnfleet_worker.seen import Event, by_run, look


@dataclass(frozen=True, slots=True)
class Known:
    """What the ports must know of a run's open round: its calls' receipts, and those that started and left none."""

    receipts: Mapping[str, ToolOutcome]
    doubtful: Mapping[str, Entry]


NOTHING_KNOWN = Known({}, {})


@dataclass(frozen=True, slots=True)
class Rewind:
    """Readers were shown a part of a turn that does not count: they must go back to the event `to_index`.

    `index` is that of the mark which says so, in the run's own stream.
    """

    run_id: str
    parent_run_id: str | None
    index: int
    to_index: int


@dataclass(frozen=True, slots=True)
class Folded:
    """Where a run stood.

    `decisions`: those on the open interrupts of `record`. `known`: by run id, of the run and every unfinished one that
    it delegated to. `rewinds`: the same runs', as far as they are needed; each record's `next_index` leaves room for
    its run's, the root's does not.
    """

    record: PauseRecord
    decisions: Mapping[str, Decision]
    known: Mapping[str, Known]
    rewinds: tuple[Rewind, ...]


def fold(
    entries: Sequence[Entry],
    events: Sequence[Event],
    *,
    conversation: ConversationPort,
    run_id: str,
    plan_id: str,
    ran_seconds: float,
    next_index: int,
) -> Folded:
    """Fold a journal.

    `events` are the run's events from the open round's first one (see `round_start`); earlier ones may be among
    them. `next_index` is the index of the event that comes next. The plans of a fleet share one conversation port,
    so `conversation` reads the transcripts of delegated runs too.
    """
    root = RunState(run_id, run_id, None, plan_id, conversation, ran_seconds)
    for entry in entries:
        root.take(entry)
    seen = by_run(events, run_id)
    rewinds: list[Rewind] = []
    record = _record(root, seen, rewinds).model_copy(update={"next_index": next_index})
    known = {
        state.run_id: Known(dict(state.open.receipts), dict(state.open.starts))
        for state in root.tree()
        if state.open is not None
    }
    return Folded(record, root.open.decided() if root.open else {}, known, tuple(rewinds))


def round_start(entries: Sequence[Entry]) -> int:
    """Give the index of the open round's first event: where the round before it, or the opening, ended."""
    own = (entry for entry in reversed(entries) if "run" not in entry)
    return next((entry["at"] for entry in own if entry["k"] in {"opened", "closed"}), 0)


def _record(state: RunState, events: Mapping[str, Sequence[Event]], rewinds: list[Rewind]) -> PauseRecord:
    """Give the record of a run; rewinds that it and those below it need are added to `rewinds`, parents first."""
    seen = look(state, events.get(state.run_id, ()))
    next_index = seen.next_index
    if seen.cut_off:
        rewinds.append(Rewind(state.run_id, state.parent_run_id, next_index, state.round_start))
        next_index += 1
    current = state.open
    of_the_round: dict[str, Any] = {}
    if current is not None:
        of_the_round = {
            "turn": current.turn,
            "outcomes": dict(current.receipts),
            "decisions": current.settled(),
            "children": {call_id: _record(child, events, rewinds) for call_id, child in current.children.items()},
            "interrupts": tuple(current.interrupts[name] for name in current.waiting),
        }
    return PauseRecord(
        run_id=state.run_id,
        root_run_id=state.root_run_id,
        parent_run_id=state.parent_run_id,
        plan_id=state.plan_id,
        transcript=state.conversation.dump(state.transcript) if state.opened else None,
        shown=tuple(Delta(kind, text) for kind, text in seen.again),  # type: ignore[arg-type]
        model=state.model,
        usage=state.usage,
        text=state.text,
        call_ids=tuple(state.call_ids),
        rounds=state.rounds,
        ran_seconds=state.ran_seconds,
        tool_outcomes=tuple(state.tool_outcomes),
        next_index=next_index,
        interrupt_ids=tuple(state.interrupt_ids),
        resolved=state.resolved,
        made=seen.made,
        **of_the_round,
    )
