"""What a consumer makes of the one event stream (IPL-2). Each is attached per invocation."""

from __future__ import annotations

from typing import Any

from turnfleet_kernel.contracts.events import PAUSE_KINDS, TERMINAL_KINDS, KernelEvent
from turnfleet_kernel.contracts.values import InvocationOutcome, PausedOutcome
from turnfleet_kernel.errors import ContractViolationError
from turnfleet_kernel.plan import InvocationPlan

__all__ = ["ResultCollector", "TextStreamAdapter", "TypedStreamAdapter"]


class ResultCollector:
    """Keeps how the invocation ended."""

    __slots__ = ("_plan", "_result")

    def __init__(self, plan: InvocationPlan) -> None:
        """Collect for an invocation of this plan."""
        self._plan = plan
        self._result: InvocationOutcome[Any] | PausedOutcome | None = None

    @classmethod
    def attach(cls, plan: InvocationPlan) -> ResultCollector:
        """Attach to an invocation."""
        return cls(plan)

    def accept(self, event: KernelEvent) -> None:
        """Look at the next event."""
        if event.kind == "done":
            self._result = event.outcome
        elif event.kind in PAUSE_KINDS:
            self._result = PausedOutcome(event.run_id, event.interrupts)

    def result(self) -> InvocationOutcome[Any] | PausedOutcome:
        """Give the outcome.

        Raises:
            ContractViolationError: no event has ended the invocation.
        """
        if self._result is None:
            raise ContractViolationError(f"no event has ended this invocation of plan {self._plan.identity.name!r} yet")
        return self._result


class TextStreamAdapter:
    """Picks the answer's text out of the events."""

    __slots__ = ("_plan",)

    def __init__(self, plan: InvocationPlan) -> None:
        """Read an invocation of this plan."""
        self._plan = plan

    @classmethod
    def attach(cls, plan: InvocationPlan) -> TextStreamAdapter:
        """Attach to an invocation."""
        return cls(plan)

    def text(self, event: KernelEvent) -> str | None:
        """Give the text that the event lets out, None if it is another kind."""
        return event.text if event.kind == "text_delta" else None


class TypedStreamAdapter:
    """Passes the events on, holding their source to one run, no hole and nothing after the end (EVT-2, EVT-4)."""

    __slots__ = ("_ended", "_last", "_plan")

    def __init__(self, plan: InvocationPlan) -> None:
        """Read an invocation of this plan."""
        self._plan = plan
        self._last: KernelEvent | None = None
        self._ended = False

    @classmethod
    def attach(cls, plan: InvocationPlan) -> TypedStreamAdapter:
        """Attach to an invocation."""
        return cls(plan)

    def accept(self, event: KernelEvent) -> KernelEvent:
        """Check the next event against the one before.

        Raises:
            ContractViolationError: it belongs elsewhere.
        """
        last = self._last
        if self._ended or (last is not None and (event.run_id, event.index) != (last.run_id, last.index + 1)):
            where = "nothing" if last is None else f"{last.kind} {last.index} of run {last.run_id}"
            raise ContractViolationError(f"event {event.kind} {event.index} of run {event.run_id} came after {where}")
        self._last = event
        self._ended = event.kind in TERMINAL_KINDS or event.kind in PAUSE_KINDS
        return event
