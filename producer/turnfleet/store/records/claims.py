"""A claim on a run: what a worker takes, and what each of its writes learns."""

from dataclasses import dataclass
from typing import Any, Literal, Protocol

from turnfleet.store.records.runs import Previous

__all__ = ["Beat", "Claim", "ClaimLike", "ClaimRef", "NotClaimed", "StepAck"]


class ClaimLike(Protocol):
    """Anything that says which claim on which run it speaks for."""

    @property
    def run_id(self) -> str:
        """The run."""

    @property
    def claim_id(self) -> str:
        """The claim's random id: the fence."""


@dataclass(frozen=True, slots=True)
class ClaimRef:
    """The fence of a claim: what every write of an invocation names."""

    run_id: str
    claim_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A run taken by a worker, with all that its invocation needs.

    `attempt` counts claims from 1, `losses` counts leases lost in a row. `journal` is the whole journal in order.
    The next event has `next_index`; the next write has `seq + 1`. The run could be claimed from `ready_ms` on (None: an
    earlier release queued it), and was at `claimed_ms`. `cancel`: the reason of a recorded cancel. `trace` is
    that of its `NewRun`.
    """

    run_id: str
    claim_id: str
    attempt: int
    losses: int
    previous: Previous
    plan: dict[str, Any]
    plan_id: str
    request: dict[str, Any]
    digest: str
    queue: str
    priority: int
    thread_id: str | None
    tenant: str | None
    deadline_seconds: float | None
    expires_ms: int | None
    created_ms: int
    ready_ms: int | None
    claimed_ms: int | None
    journal: tuple[dict[str, Any], ...]
    next_index: int
    seq: int
    ran_ms: int
    cancel: str | None
    metadata: dict[str, Any]
    eta_ms: int | None = None
    recorded: bool = True
    kid: str | None = None
    sig: str | None = None
    trace: str | None = None

    @property
    def ref(self) -> ClaimRef:
        """The claim's fence alone."""
        return ClaimRef(self.run_id, self.claim_id)


@dataclass(frozen=True, slots=True)
class NotClaimed:
    """There is nothing to run for this message.

    `reason`: "gone" (the record was deleted), "state" (not queued; or past its `expires`, then `state` is "expired"),
    "early" (its `eta` lies ahead), "digest" (the message is of another request), "suspect" (it must be alone).
    """

    run_id: str
    reason: Literal["gone", "state", "early", "digest", "suspect"]
    state: str


@dataclass(frozen=True, slots=True)
class StepAck:
    """A step is in the store, unless it was to start an effect and `cancel` (the reason) says that none may start."""

    cancel: str | None


@dataclass(frozen=True, slots=True)
class Beat:
    """What a heartbeat learned. Not `alive`: the claim is lost. `expired`: the run's `expires` passed."""

    alive: bool
    cancel: str | None = None
    expired: bool = False
