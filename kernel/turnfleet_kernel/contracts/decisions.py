"""Which decisions an interrupt takes, and what their content must fit (HK-6)."""

from collections.abc import Mapping
from typing import Any, Final

from turnfleet_kernel.contracts.interrupts import Answer, Approve, Decision, Edit, Interrupt, Reject, Retry
from turnfleet_kernel.contracts.schema import schema_problem
from turnfleet_kernel.errors import InvalidDecision

__all__ = ["ALLOWED_DECISIONS", "check_decision"]

ALLOWED_DECISIONS: Final[Mapping[str, tuple[type, ...]]] = {
    "approval": (Approve, Edit, Reject),
    "question": (Answer, Reject),
    "in_doubt": (Approve, Edit, Retry, Reject),
}
"""By an interrupt's kind."""


def check_decision(interrupt: Interrupt, decision: Decision, *, schema: Mapping[str, Any] | None = None) -> None:
    """Refuse a decision that does not fit its interrupt.

    Edited arguments must fit ``schema``, the tool's (by default what the interrupt's payload holds); an answer must
    fit the question's schema.

    Raises:
        InvalidDecision: it names the interrupt, and what would be accepted.
    """
    allowed = ALLOWED_DECISIONS[interrupt.kind]
    if not isinstance(decision, allowed):
        kinds = ", ".join(kind.__name__.lower() for kind in allowed)
        msg = (
            f"interrupt {interrupt.id!r} ({interrupt.kind}) cannot be decided with {decision.kind!r}; it takes {kinds}"
        )
        raise InvalidDecision(msg)
    schema = schema or interrupt.payload.get("schema")
    problem: str | None = None
    if isinstance(decision, Edit):
        what = "the edited arguments do"
        problem = schema_problem(schema, decision.arguments)
    elif isinstance(decision, Answer):
        what = "the answer does"
        problem = schema_problem(schema, decision.value)
    if problem is not None:
        raise InvalidDecision(f"interrupt {interrupt.id!r}: {what} not fit the schema: {problem}")
