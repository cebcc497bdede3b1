"""turnfleet's kernel: runs one invocation of an agent plan, in process."""

from turnfleet_kernel.contracts.interrupts import (
    Answer,
    Approve,
    Edit,
    Interrupt,
    InvocationPaused,
    InvocationPreempted,
    Reject,
    Retry,
)
from turnfleet_kernel.contracts.spec import PlanSpec, plan_id

__all__ = [
    "Answer",
    "Approve",
    "Edit",
    "Interrupt",
    "InvocationPaused",
    "InvocationPreempted",
    "PlanSpec",
    "Reject",
    "Retry",
    "plan_id",
]
