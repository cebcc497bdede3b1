"""What a stage is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from turnfleet_kernel.contracts.frozen import FrozenDict, ResolvedInputs
from turnfleet_kernel.contracts.interrupts import Decided
from turnfleet_kernel.contracts.quick import quick_init
from turnfleet_kernel.contracts.stages import Phase
from turnfleet_kernel.contracts.values import (
    ModelTurn,
    PromptAssembly,
    RunIdentity,
    ToolOutcome,
    ToolRequest,
    TurnRequest,
)
from turnfleet_kernel.plan import InvocationPlan
from turnfleet_kernel.ports import Transcript

__all__ = ["StageFrame"]

_NOTHING: Final = FrozenDict[str, Any]()


@quick_init
@dataclass(frozen=True, slots=True)
class StageFrame:
    """A stage's view of the run; what its phase does not have yet is None (STG-3)."""

    plan: InvocationPlan
    request: TurnRequest
    phase: Phase
    run: RunIdentity
    notes: Callable[[str], dict[str, Any]]
    resolved: ResolvedInputs | None = None
    assembly: PromptAssembly | None = None
    transcript: Transcript = None
    turn: ModelTurn | None = None
    requests: tuple[ToolRequest, ...] | None = None
    outcomes: tuple[ToolOutcome, ...] | None = None
    decided: Mapping[str, Decided] = _NOTHING
    """In pre-tool, by interrupt id: what was decided in the round, with what each person was shown (HK-3)."""
    known: Mapping[str, ToolOutcome] = _NOTHING
    """In pre-tool, by call id: outcomes of the round that an earlier invocation left; these calls are not made."""

    def scratch(self, namespace: str) -> dict[str, Any]:
        """Give the notes of one capability, its own in this invocation (RCX-7)."""
        return self.notes(namespace)
