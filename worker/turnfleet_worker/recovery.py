"""Where a claimed run goes on: its journal folded, and the marks that its readers get (DESIGN 3)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from turnfleet.store.records import Claim
from turnfleet_kernel.ports import ConversationPort
from turnfleet_worker.fold import Folded, Rewind, fold


@dataclass(frozen=True, slots=True)
class Recovery:
    """How an invocation begins. `folded` is None for a run's very first; `marks` are its first events, with index."""

    folded: Folded | None
    marks: tuple[Mapping[str, Any], ...]


def recover(
    claim: Claim,
    events: Sequence[Mapping[str, Any]],
    *,
    conversation: ConversationPort,
    plan_id: str,
    now: float,
) -> Recovery:
    """Fold a claimed run's journal. `events` are its events from the open round's first one; `now` in Unix seconds.

    A reader that was shown a part of an answer which does not count is told to `rewind`; otherwise a new attempt
    says `resumed` (a retry has said so already, where it was asked for). A delegated run's rewind stands inside a
    `child` event, as all of its events do.
    """
    if claim.previous == "new" and not claim.journal and claim.next_index == 0:
        return Recovery(None, ())
    folded = fold(
        claim.journal,
        events,
        conversation=conversation,
        run_id=claim.run_id,
        plan_id=plan_id,
        ran_seconds=claim.ran_ms / 1000,
        next_index=claim.next_index,
    )
    marks = [_mark(claim, rewind, now) for rewind in folded.rewinds]
    if claim.previous != "failed" and not any(mark["kind"] == "rewind" for mark in marks):
        marks.insert(0, {"kind": "resumed", "attempt": claim.attempt})
    placed = tuple(
        {"run_id": claim.run_id, "index": claim.next_index + place, "time": now, **mark}
        for place, mark in enumerate(marks)
    )
    record = folded.record.model_copy(update={"next_index": claim.next_index + len(placed)})
    return Recovery(replace(folded, record=record), placed)


def _mark(claim: Claim, rewind: Rewind, now: float) -> dict[str, Any]:
    if rewind.run_id == claim.run_id:
        return {"kind": "rewind", "to_index": rewind.to_index}
    inner = {
        "run_id": rewind.run_id,
        "index": rewind.index,
        "kind": "rewind",
        "time": now,
        "to_index": rewind.to_index,
    }
    return {"kind": "child", "parent_run_id": rewind.parent_run_id, "event": inner}
