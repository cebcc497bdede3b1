"""What a stage is shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from turnfleet_kernel.contracts.frozen import ResolvedInputs
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

    def scratch(self, namespace: str) -> dict[str, Any]:
        """Give the notes of one capability, its own in this invocation (RCX-7)."""
        return self.notes(namespace)
