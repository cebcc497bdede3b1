"""Where a claimed run goes on: its journal folded, and the mark that its readers get (DESIGN 3)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from turnfleet.store.records import Claim
from turnfleet_kernel.ports import ConversationPort
from turnfleet_worker.fold import Folded, fold


@dataclass(frozen=True, slots=True)
class Recovery:
    """How an invocation begins. `folded` is None for a run's very first; `mark` is its first event, without index."""

    folded: Folded | None
    mark: Mapping[str, Any] | None


def recover(
    claim: Claim, events: Sequence[Mapping[str, Any]], *, conversation: ConversationPort, plan_id: str
) -> Recovery:
    """Fold a claimed run's journal. `events` are its events from the open round's first one.

    A reader that was shown a part of an answer which does not count is told to `rewind`; otherwise a new attempt
    says `resumed` (a retry has said so already, where it was asked for).
    """
    if claim.previous == "new" and not claim.journal and claim.next_index == 0:
        return Recovery(None, None)
    folded = fold(
        claim.journal,
        events,
        conversation=conversation,
        run_id=claim.run_id,
        plan_id=plan_id,
        ran_seconds=claim.ran_ms / 1000,
        next_index=claim.next_index,
    )
    mark: dict[str, Any] | None = None
    if folded.cut_off:
        mark = {"kind": "rewind", "to_index": folded.round_start}
    elif claim.previous != "failed":
        mark = {"kind": "resumed", "attempt": claim.attempt}
    if mark is not None:
        record = folded.record.model_copy(update={"next_index": claim.next_index + 1})
        folded = replace(folded, record=record)
    return Recovery(folded, mark)
