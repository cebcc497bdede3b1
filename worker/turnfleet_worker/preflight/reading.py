"""From a run's file to where it stands: the journal folded as a worker would, failures told apart by their cause."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from turnfleet.store.records import Claim
from turnfleet_kernel.contracts.values import ModelTurn, ToolOutcome, ToolRequest
from turnfleet_kernel.plan import InvocationPlan
from turnfleet_kernel.ports import Transcript
from turnfleet_kernel.wrapping import ConversationAround
from turnfleet_worker.fold import Folded, fold
from turnfleet_worker.journal import Entry

T = TypeVar("T")


class TranscriptUnreadable(ValueError):
    """The conversation port does not take back what was recorded; the text says which operation, and its error."""


def read_journal(claim: Claim, entries: Sequence[Entry], plan: InvocationPlan) -> Folded:
    """Fold a run's journal; `entries` are those of it that are believed.

    The log of events is left alone: it decides only what readers are shown again, never whether a run goes on.
    Raises `TranscriptUnreadable`, and what `fold` raises for a journal that it cannot read.
    """
    return fold(
        entries,
        (),
        conversation=_Told(plan.bindings.conversation),
        run_id=claim.run_id,
        plan_id=plan.identity.plan_id,
        ran_seconds=0.0,
        next_index=claim.next_index,
    )


class _Told(ConversationAround):
    """A conversation port whose failures say that they are its own."""

    def close_round(
        self,
        transcript: Transcript,
        turn: ModelTurn,
        requests: Sequence[ToolRequest],
        outcomes: Sequence[ToolOutcome],
    ) -> None:
        _telling("close_round", lambda: super(_Told, self).close_round(transcript, turn, requests, outcomes))

    def dump(self, transcript: Transcript) -> Any:
        return _telling("dump", lambda: super(_Told, self).dump(transcript))

    def load(self, value: Any) -> Transcript:
        return _telling("load", lambda: super(_Told, self).load(value))


def _telling(operation: str, ask: Callable[[], T]) -> T:
    try:
        return ask()
    except Exception as error:
        raise TranscriptUnreadable(f"{operation}() raised {type(error).__name__}: {error}") from error
