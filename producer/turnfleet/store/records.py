"""What goes into the store and what comes out of it: plain frozen values.

Times are milliseconds since the epoch by Redis' own clock, unless a name says otherwise. Plans, requests, events,
journal entries, outcomes and decisions are JSON objects that the store carries and does not read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Previous = Literal["new", "paused", "lost", "released", "failed"]
"""Why a run is queued, and so why its next invocation exists."""

EndState = Literal["completed", "failed", "cancelled", "expired"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """A run to be. `held`: it waits for its thread; the sweep offers it as a fallback only.

    `recorded`: its producer writes the record, and the message comes after it. `kid` and `sig` are its signature.
    `trace` is the trace context in which it was enqueued, as text that the store does not read.
    """

    run_id: str
    plan: Mapping[str, Any]
    plan_id: str
    request: Mapping[str, Any]
    digest: str
    queue: str
    priority: int = 5
    thread_id: str | None = None
    tenant: str | None = None
    eta_ms: int | None = None
    expires_ms: int | None = None
    deadline_seconds: float | None = None
    metadata: Mapping[str, Any] | None = None
    held: bool = False
    recorded: bool = True
    kid: str | None = None
    sig: str | None = None
    trace: str | None = None


@dataclass(frozen=True, slots=True)
class Created:
    """The run is in the store. `existed`: it was already, with the same digest.

    `publish`: message number 1 is the caller's to publish; False when the run existed, is held, or has an `eta` ahead.
    """

    existed: bool
    state: str
    publish: bool


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How an invocation ended its run. `event` is its terminal event, index set; it is kept if the end stands."""

    state: EndState
    event: Mapping[str, Any]
    outcome: Mapping[str, Any] | None = None
    error: str | None = None
    usage: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """The claim is over; `state` is what the run is now. `offer` is to be published: a pause found all decided."""

    state: str
    offer: "Offer | None" = None


@dataclass(frozen=True, slots=True)
class Offer:
    """A message to publish: "look at this run". Number 1 is the run's first message; each later one counts up.

    `trace`: the run's own, while it has not started.
    """

    run_id: str
    number: int
    queue: str
    priority: int
    thread_id: str | None
    plan_id: str
    digest: str
    plan_name: str
    trace: str | None = None


@dataclass(frozen=True, slots=True)
class Resumed:
    """The decisions stand. `offer` is set when this call made the run claimable."""

    state: str
    offer: Offer | None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """`accepted` is False when the run had ended before. `state` is what it is now ("running": the intent is kept)."""

    accepted: bool
    state: str
    thread_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything about a run that a person may see. `outcome` is set only by the `outcome` command."""

    run_id: str
    state: str
    plan_id: str
    plan_name: str
    digest: str
    queue: str
    priority: int
    thread_id: str | None
    tenant: str | None
    metadata: dict[str, Any]
    attempt: int
    losses: int
    previous: Previous
    offers: int
    offered_ms: int | None
    worker: str | None
    created_ms: int
    started_ms: int | None
    claimed_ms: int | None
    changed_ms: int
    ended_ms: int | None
    eta_ms: int | None
    expires_ms: int | None
    deadline_seconds: float | None
    ran_ms: int
    cancel: str | None
    missing: dict[str, tuple[str, ...]]
    parked: str | None
    error: str | None
    usage: dict[str, Any] | None
    next_index: int
    interrupts: tuple[StoredInterrupt, ...] = ()
    outcome: dict[str, Any] | None = None

    @property
    def position(self) -> tuple[int, str]:
        """Where the run stands in a listing: newest created first."""
        return self.created_ms, self.run_id


@dataclass(frozen=True, slots=True)
class InboxEntry:
    """A run that waits for people, with its open interrupts. `since_ms`: when it paused."""

    run_id: str
    plan_name: str
    tenant: str | None
    since_ms: int
    interrupts: tuple[StoredInterrupt, ...]

    @property
    def position(self) -> tuple[int, str]:
        """Where the run stands in the inbox: latest paused first."""
        return self.since_ms, self.run_id


@dataclass(frozen=True, slots=True)
class Definition:
    """What a run was asked to do: its plan and its request, as JSON."""

    plan: dict[str, Any]
    request: dict[str, Any]


@dataclass(frozen=True, slots=True)
class EventsPage:
    """Events of a run in order, all with an index above the one asked for. Empty: the reader is up to date.

    `first_index` is the earliest index still in the log, `next_index` the one that the next event will have.
    """

    events: tuple[dict[str, Any], ...]
    first_index: int
    next_index: int
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPolicy:
    """What the sweep goes by.

    `max_attempts` leases lost in a row end a run `failed`. A queued run's message counts as lost after
    `reoffer_after_ms`, then after twice that, and so on up to `reoffer_cap_ms`. `ttl_ms`: how long an ended run is
    kept. `quiet_ms`: a server that started, or took over from another, less than this ago takes no lease back, so that
    owners can renew first. `hold_ms`: no lease is taken back for this long, because the caller knows of an outage.
    """

    max_attempts: int = 5
    reoffer_after_ms: int = 10_000
    reoffer_cap_ms: int = 600_000
    ttl_ms: int = 86_400_000
    quiet_ms: int = 0
    hold_ms: int = 0


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A run that the sweep ended, for those who wait behind it in its thread."""

    run_id: str
    state: str
    thread_id: str | None
    plan_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What one sweep of a shard did. `more`: it stopped at its limit; sweep again. `now_ms`: when, by the server.

    `late`: it came too late to be believed, and did nothing.
    """

    offers: tuple[Offer, ...]
    ended: tuple[EndedRun, ...]
    lost: int
    expired: int
    failed: int
    decided: int
    more: bool
    now_ms: int
    late: bool
