"""What can go wrong between a service and its fleet. The type says whose fault it is and whether to try again.

    TurnfleetError                      (turnfleet_kernel.errors: the root of everything that turnfleet raises)
    ├── InvalidId (ValueError)          an id or fleet name with characters that keys and channels cannot carry
    ├── InvalidAddress (ValueError)     a URL that names no server
    ├── RunError                        has `run_id`
    │   ├── UnknownRun                  no such run: never enqueued, or forgotten after its retention
    │   ├── RunIdConflict               the run id is taken by another request
    │   ├── IllegalTransition           the run's state does not allow it; nothing changed
    │   ├── EventsLost                  a failover lost events that a reader has had; begin anew
    │   ├── EventsTrimmed               the events asked for left the bounded log; read from `first_index`
    │   ├── RunPaused                   a person must decide first (`interrupts`)
    │   ├── RunEnded                    the run ended without an outcome
    │   │   ├── RunFailed
    │   │   ├── RunCancelled
    │   │   └── RunExpired
    │   ├── DecisionError               the decision was not taken; nothing changed
    │   │   ├── ResumeConflict          somebody else decided first, or what was shown is out of date
    │   │   ├── NotAllowed              the decider has none of the roles that may decide
    │   │   └── InvalidDecision         this decision does not fit this interrupt (also the kernel's error of that name)
    │   │       └── UnknownInterrupt    the run has no such interrupt
    │   └── FencedOff                   this worker no longer speaks for the run; stop the invocation
    │       ├── ClaimLost               another claim, or none, holds the run now
    │       └── StepGap                 a write of this invocation is missing in between
    ├── ThreadBusy                      `double_text="reject"` and another run of the thread is in front
    ├── PlanRejected                    no live worker has all the names that the plan uses
    ├── WireError                       what was sent cannot be a turnfleet message
    │   ├── InvalidEnvelope
    │   ├── PayloadTooLarge
    │   └── BadSignature                its signature is missing, is of an unknown key, or is of something else
    ├── WrongEventLoop                  an AsyncFleet was used from another event loop than its own
    ├── StoreError                      the fleet's Redis refused a command: a fault in the set-up or in turnfleet
    └── FleetUnavailable                Redis or the broker cannot be reached; try again later

No message holds a prompt, an argument, an outcome or a URL.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from turnfleet_kernel.errors import InvalidDecision as KernelInvalidDecision
from turnfleet_kernel.errors import TurnfleetError

__all__ = [
    "BadSignature",
    "ClaimLost",
    "DecisionError",
    "EventsLost",
    "EventsTrimmed",
    "FencedOff",
    "FleetUnavailable",
    "IllegalTransition",
    "InvalidAddress",
    "InvalidDecision",
    "InvalidEnvelope",
    "InvalidId",
    "NotAllowed",
    "PayloadTooLarge",
    "PlanRejected",
    "ResumeConflict",
    "RunCancelled",
    "RunEnded",
    "RunError",
    "RunExpired",
    "RunFailed",
    "RunIdConflict",
    "RunPaused",
    "StepGap",
    "StoreError",
    "ThreadBusy",
    "TurnfleetError",
    "UnknownInterrupt",
    "UnknownRun",
    "WireError",
    "WrongEventLoop",
]


class InvalidId(TurnfleetError, ValueError):
    """An id holds characters that keys, channels and task ids cannot carry, or has the wrong length."""

    def __init__(self, kind: str, value: object, rule: str) -> None:
        shown = repr(value)[:80]
        super().__init__(f"{kind} {shown} cannot be used: {rule}")
        self.kind = kind
        self.value = value


class InvalidAddress(TurnfleetError, ValueError):
    """A URL names no server. Its text shows nothing of the URL, which may hold a password."""


class RunError(TurnfleetError):
    """Something about one run, named by `run_id`."""

    def __init__(self, run_id: str, message: str) -> None:
        super().__init__(message)
        self.run_id = run_id


class UnknownRun(RunError):
    """There is no such run: it was never enqueued, was deleted, or its retention after the end is over."""

    def __init__(self, run_id: str) -> None:
        super().__init__(
            run_id, f"run {run_id!r} is unknown: never enqueued in this fleet, deleted, or past its retention"
        )


class RunIdConflict(RunError):
    """The run id belongs to a run with another request."""

    def __init__(self, run_id: str) -> None:
        super().__init__(
            run_id,
            f"run id {run_id!r} is taken by another request (its digest differs): "
            "enqueue the same plan and request to get that run, or use another run id",
        )


class IllegalTransition(RunError):
    """The run's state does not allow what was asked. Nothing changed."""

    def __init__(self, run_id: str, event: str, state: str) -> None:
        super().__init__(run_id, f"run {run_id!r} is {state}: {event!r} is not possible in that state")
        self.event = event
        self.state = state


class EventsTrimmed(RunError):
    """The events asked for have left the run's bounded log; `first_index` is the earliest one still there."""

    def __init__(self, run_id: str, first_index: int) -> None:
        super().__init__(
            run_id,
            f"run {run_id!r}: events before index {first_index} were trimmed from its log; "
            f"read from after={first_index - 1}, or read the run's status and result",
        )
        self.first_index = first_index


class EventsLost(RunError):
    """The run's log ends before what the reader has had: a failover lost it. `next_index` is where it goes on."""

    def __init__(self, run_id: str, had: int, next_index: int) -> None:
        super().__init__(
            run_id,
            f"run {run_id!r}: events up to index {had} were read, but its log ends before index {next_index}: "
            "a failover lost the others, and what comes in their place may differ; "
            f"read anew from after=-1, or go on from after={next_index - 1}",
        )
        self.next_index = next_index


class RunPaused(RunError):
    """The run waits for people. `interrupts` are the open ones, in request order."""

    def __init__(self, run_id: str, interrupts: Sequence[Any] = ()) -> None:
        super().__init__(
            run_id, f"run {run_id!r} is paused: {len(interrupts)} interrupt(s) open; decide them with run.resume()"
        )
        self.interrupts = tuple(interrupts)


class RunEnded(RunError):
    """The run ended without an outcome."""


class RunFailed(RunEnded):
    """The run failed; `error` is its terminal event's text. `run.retry()` goes on from its journal."""

    def __init__(self, run_id: str, error: str) -> None:
        super().__init__(run_id, f"run {run_id!r} failed: {error}")
        self.error = error


class RunCancelled(RunEnded):
    """The run was cancelled, for `reason`."""

    def __init__(self, run_id: str, reason: str = "") -> None:
        super().__init__(run_id, f"run {run_id!r} was cancelled" + (f": {reason}" if reason else ""))
        self.reason = reason


class RunExpired(RunEnded):
    """The run's `expires` passed, or an interrupt without a default decision did."""

    def __init__(self, run_id: str, reason: str = "") -> None:
        super().__init__(run_id, f"run {run_id!r} expired" + (f": {reason}" if reason else ""))
        self.reason = reason


class DecisionError(RunError):
    """A decision was not taken; none of the decisions of the same call was. `interrupt_id` says which one."""

    def __init__(self, run_id: str, interrupt_id: str, message: str) -> None:
        super().__init__(run_id, message)
        self.interrupt_id = interrupt_id


class ResumeConflict(DecisionError):
    """Another decision was there first (`decided_by`), or the interrupt changed since it was shown."""

    def __init__(self, run_id: str, interrupt_id: str, *, decided_by: str = "", outdated: bool = False) -> None:
        what = (
            "has changed since it was shown: look at it again"
            if outdated
            else f"was already decided otherwise by {decided_by!r}"
        )
        super().__init__(run_id, interrupt_id, f"run {run_id!r}: interrupt {interrupt_id!r} {what}")
        self.decided_by = decided_by


class NotAllowed(DecisionError):
    """The decider has none of the roles that may decide this interrupt."""

    def __init__(self, run_id: str, interrupt_id: str, roles: Sequence[str]) -> None:
        super().__init__(
            run_id,
            interrupt_id,
            f"run {run_id!r}: interrupt {interrupt_id!r} may be decided by {', '.join(roles)} only: "
            f"say that whoever decides has that role (roles=, or --role {roles[0] if roles else ''})",
        )
        self.roles = tuple(roles)


class InvalidDecision(DecisionError, KernelInvalidDecision):
    """This decision does not fit this interrupt: its kind (HK-6), its arguments or its value."""


class UnknownInterrupt(InvalidDecision):
    """The run has no interrupt of that id."""

    def __init__(self, run_id: str, interrupt_id: str) -> None:
        super().__init__(
            run_id,
            interrupt_id,
            f"run {run_id!r} has no interrupt {interrupt_id!r}: run.interrupts() and turnfleet show list its ids",
        )


class FencedOff(RunError):
    """A write of this invocation was refused: it must stop, and another one goes on with the run."""


class ClaimLost(FencedOff):
    """The run is not held by this claim any more. `state` is what it is now; empty when its record is gone."""

    def __init__(self, run_id: str, state: str) -> None:
        now = f"its state is {state}" if state else "its record is gone"
        super().__init__(run_id, f"run {run_id!r} is no longer held by this claim ({now}): this invocation must stop")
        self.state = state


class StepGap(FencedOff):
    """A write does not follow the last one that the store has. `counter` is `"seq"` or `"index"`."""

    def __init__(self, run_id: str, counter: str, *, expected: int, given: int) -> None:
        super().__init__(
            run_id,
            f"run {run_id!r}: a write with {counter} {given} cannot follow: {expected} was expected, nothing changed",
        )
        self.counter = counter
        self.expected = expected
        self.given = given


class ThreadBusy(TurnfleetError):
    """Another run of the same thread is in front, and the caller asked not to wait (`double_text="reject"`)."""

    def __init__(self, thread_id: str, run_id: str) -> None:
        super().__init__(
            f"thread {thread_id!r} is busy with run {run_id!r}: wait for it, or enqueue with another double_text"
        )
        self.thread_id = thread_id
        self.run_id = run_id


class PlanRejected(TurnfleetError):
    """No live worker has these names. `unknown` and `known` map a kind ("model", "tool", ...) to names."""

    def __init__(self, unknown: Mapping[str, Sequence[str]], known: Mapping[str, Sequence[str]]) -> None:
        parts = [
            f"{kind} {', '.join(map(repr, names))} (they have: {', '.join(sorted(known.get(kind, ()))) or 'none'})"
            for kind, names in unknown.items()
        ]
        super().__init__("no live worker knows what the plan names: " + "; ".join(parts))
        self.unknown = {kind: tuple(names) for kind, names in unknown.items()}
        self.known = {kind: tuple(names) for kind, names in known.items()}


class WireError(TurnfleetError):
    """What was sent, or is about to be, cannot be a turnfleet message."""


class InvalidEnvelope(WireError):
    """The envelope of a `turnfleet.invoke` message does not fit its published schema or version."""


class PayloadTooLarge(WireError):
    """A part of the message is over its limit; sizes in bytes."""

    def __init__(self, part: str, size: int, limit: int) -> None:
        super().__init__(f"{part} is {size} bytes, the limit is {limit}: send a reference instead of the content")
        self.part = part
        self.size = size
        self.limit = limit


class BadSignature(WireError):
    """What claims to be a run, a message or a decision is not as somebody with a key signed it.

    `trouble`: "unsigned", "unknown key" (`kid`; perhaps it was rotated away) or "altered". `known` are the names of
    the keys that would do.
    """

    def __init__(
        self, run_id: str, what: str, trouble: str, *, kid: str | None = None, known: Sequence[str] = ()
    ) -> None:
        ours = ", ".join(known)
        match trouble:
            case "unsigned":
                why = f"is not signed, and the workers run only what one of the keys {ours} signed: pass signing="
            case "unknown key":
                why = (
                    f"is signed with the key {kid!r}, and the workers have {ours}: sign with one of those, or give "
                    "that key back to the workers (it need not be the current one) and retry the run"
                )
            case _:
                why = f"does not fit its signature by {kid!r}: it was altered since, or another key has that name"
        super().__init__(f"{what} {why}")
        self.run_id = run_id
        self.trouble = trouble
        self.kid = kid
        self.known = tuple(known)


class WrongEventLoop(TurnfleetError):
    """An AsyncFleet belongs to the event loop that first used it; make one fleet per loop."""


class StoreError(TurnfleetError):
    """The fleet's Redis answered with an error: a set-up that does not fit, or a fault in turnfleet."""


class FleetUnavailable(TurnfleetError):
    """Redis or the broker did not answer in time. `maybe_enqueued`: the run's record may exist already.

    Enqueueing again with the same `run_id` is always safe: the same request gives the same run.
    """

    def __init__(self, message: str, *, run_id: str | None = None, maybe_enqueued: bool = False) -> None:
        super().__init__(message)
        self.run_id = run_id
        self.maybe_enqueued = maybe_enqueued
