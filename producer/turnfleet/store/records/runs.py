"""The life of a run, from its record to its end."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["Cancelled", "Created", "EndState", "Ended", "Ending", "NewRun", "Offer", "Previous"]

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
    offer: Offer | None = None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """`accepted` is False when the run had ended before. `state` is what it is now ("running": the intent is kept)."""

    accepted: bool
    state: str
    thread_id: str | None = None
