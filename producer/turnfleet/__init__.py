"""turnfleet: enqueue agent runs from any service, follow them live, and decide what waits for people.

Names are loaded when the first of them is used: the command line answers `--help`, completes words and leaves on a
Ctrl-C without Celery and redis-py.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnfleet.public import *

__all__ = [
    "Answer",
    "Approve",
    "AsyncFleet",
    "AsyncRun",
    "BadSignature",
    "ClaimLost",
    "Decision",
    "DecisionError",
    "Edit",
    "EnqueueItem",
    "EnqueueOptions",
    "EventKind",
    "EventsLost",
    "EventsTrimmed",
    "FencedOff",
    "Fleet",
    "FleetUnavailable",
    "IllegalTransition",
    "Interrupt",
    "InvalidAddress",
    "InvalidDecision",
    "InvalidEnvelope",
    "InvalidId",
    "InvocationOutcome",
    "KernelEvent",
    "NotAllowed",
    "Page",
    "PayloadTooLarge",
    "PlanLimits",
    "PlanRejected",
    "PlanSpec",
    "Reject",
    "ResumeConflict",
    "Retry",
    "Run",
    "RunCancelled",
    "RunEnded",
    "RunError",
    "RunExpired",
    "RunFailed",
    "RunIdConflict",
    "RunInterrupt",
    "RunPaused",
    "RunState",
    "RunStatus",
    "SigningKeys",
    "SizeLimits",
    "StageSpec",
    "StepGap",
    "StoreError",
    "ThreadBusy",
    "ToolOutcome",
    "TurnRequest",
    "TurnfleetError",
    "UnknownInterrupt",
    "UnknownRun",
    "UsageDelta",
    "WireError",
    "WrongEventLoop",
    "decision_from_json",
    "event_to_json",
]


def __getattr__(name: str) -> Any:
    """Load what users import."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module("turnfleet.public"), name)
    return value


def __dir__() -> list[str]:
    """List all names, loaded or not."""
    return sorted(set(globals()) | set(__all__))
