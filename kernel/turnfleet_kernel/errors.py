"""Everything the kernel raises on purpose.

::

    TurnfleetError
    ├── ContractViolationError      the caller, a stage or a port broke the kernel's rules: fix the code, do not retry
    │   └── PlanError               a plan as declared makes no sense, or names what does not exist (also a ValueError)
    ├── DeadlineExceeded            the run spent its own time budget (also a TimeoutError)
    ├── StepCancelledError          a port ended in a cancellation of its own making; nobody cancelled the run
    ├── DelegationDepthError        a run delegated deeper than its root plan allows (max_depth)
    ├── PauseRecordError            a paused run holds a value that JSON cannot carry (also a ValueError)
    └── InvalidDecision             a decision does not fit the interrupt it answers (also a ValueError)

Two things that leave a run are no errors and are not in this tree: ``InvocationPaused`` and ``InvocationPreempted``
(see ``contracts.interrupts``). Messages say what happened, to which run and what to do. They never hold a prompt,
arguments or an answer.
"""

from collections.abc import Mapping

__all__ = [
    "ContractViolationError",
    "DeadlineExceeded",
    "DelegationDepthError",
    "InvalidDecision",
    "PauseRecordError",
    "PlanError",
    "StepCancelledError",
    "TurnfleetError",
]


class TurnfleetError(Exception):
    """The root of every error that turnfleet raises on purpose."""


class ContractViolationError(TurnfleetError):
    """Code around the kernel broke one of its rules; the message names the run or the stage."""


class PlanError(ContractViolationError, ValueError):
    """A plan that cannot be declared or compiled (IPL-3, IPL-7, STG-2).

    ``unknown`` maps a kind ("model", "tool", "stage", "delegate") to the names that exist nowhere; empty when the
    plan is wrong for another reason.
    """

    def __init__(self, message: str, *, unknown: Mapping[str, tuple[str, ...]] | None = None) -> None:
        """Keep the message and the unknown names by kind."""
        super().__init__(message)
        self.unknown: dict[str, tuple[str, ...]] = dict(unknown or {})


class DeadlineExceeded(TurnfleetError, TimeoutError):
    """The run's own budget of running seconds is spent (CXL-6); the message says what the run was doing."""


class StepCancelledError(TurnfleetError):
    """A model, stage or response port raised CancelledError although nobody cancelled the run (CXL-3)."""


class DelegationDepthError(TurnfleetError):
    """A run asked for a child deeper than its root plan's ``max_depth`` (DEL-1); the model sees it as an outcome."""


class PauseRecordError(TurnfleetError, ValueError):
    """A run that paused cannot be written down, because a value in it does not survive JSON (HK-3)."""


class InvalidDecision(TurnfleetError, ValueError):
    """A decision names no open interrupt, has the wrong kind for it, or fails its schema (HK-6)."""
