"""Decisions that were not taken."""

from collections.abc import Sequence

from turnfleet.errors.runs import RunError
from turnfleet_kernel.errors import InvalidDecision as KernelInvalidDecision

__all__ = ["DecisionError", "InvalidDecision", "NotAllowed", "ResumeConflict", "UnknownInterrupt"]


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
            else f"was already decided, by {decided_by!r}: run.status().decided and turnfleet show say how"
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
