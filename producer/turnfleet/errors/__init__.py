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

from turnfleet.errors.decisions import DecisionError, InvalidDecision, NotAllowed, ResumeConflict, UnknownInterrupt
from turnfleet.errors.fencing import ClaimLost, FencedOff, StepGap
from turnfleet.errors.fleets import FleetUnavailable, InvalidAddress, StoreError, WrongEventLoop
from turnfleet.errors.messages import (
    BadSignature,
    InvalidEnvelope,
    InvalidId,
    PayloadTooLarge,
    PlanRejected,
    ThreadBusy,
    WireError,
)
from turnfleet.errors.runs import (
    EventsLost,
    EventsTrimmed,
    IllegalTransition,
    RunCancelled,
    RunEnded,
    RunError,
    RunExpired,
    RunFailed,
    RunIdConflict,
    RunPaused,
    UnknownRun,
)
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
