"""What waits for people, and what they decided."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from turnfleet.store.records.runs import Offer

__all__ = ["NewDecision", "Resumed", "StoredInterrupt"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredInterrupt:
    """One call that waits, or waited, for a person.

    Written with `expires_in_ms` (a duration), read with `expires_ms` (a time). `on_expiry` is the decision that is
    taken then; None ends the run `expired`. `schema` is the JSON Schema that an edit's arguments or an answer must
    fit. Once decided, `decision`, `by`, `decision_id` and `decided_ms` are set. `anew`: an earlier decision on it does
    not stand, whatever it was about.
    """

    id: str
    kind: str
    payload: Mapping[str, Any]
    call_id: str | None = None
    roles: tuple[str, ...] = ()
    expires_in_ms: int | None = None
    expires_ms: int | None = None
    on_expiry: Mapping[str, Any] | None = None
    schema: Mapping[str, Any] | None = None
    digest: str | None = None
    decision: Mapping[str, Any] | None = None
    by: str | None = None
    decision_id: str | None = None
    decided_ms: int | None = None
    anew: bool = False

    @property
    def open(self) -> bool:
        """Whether nobody has decided yet."""
        return self.decision is None


@dataclass(frozen=True, slots=True)
class NewDecision:
    """A decision about one interrupt. `digest` is that of the arguments which the decider was shown.

    `proof` (JSON) is kept with it in the journal, for the worker that acts on it.
    """

    interrupt_id: str
    decision: Mapping[str, Any]
    digest: str | None = None
    proof: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Resumed:
    """The decisions stand. `offer` is set when this call made the run claimable."""

    state: str
    offer: Offer | None
