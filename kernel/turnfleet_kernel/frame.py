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

__all__ = ["Around", "StageFrame"]

_NOTHING: Final = FrozenDict[str, Any]()


@quick_init
@dataclass(frozen=True, slots=True)
class Around:
    """What a stage is shown of the run that it is part of: the same in all phases after prompt assembly."""

    plan: InvocationPlan
    request: TurnRequest
    run: RunIdentity
    notes: Callable[[str], dict[str, Any]]
    resolved: ResolvedInputs | None = None
    assembly: PromptAssembly | None = None


@quick_init
@dataclass(frozen=True, slots=True)
class StageFrame:
    """A stage's view of the run; what its phase does not have yet is None (STG-3)."""

    around: Around
    phase: Phase
    transcript: Transcript = None
    turn: ModelTurn | None = None
    requests: tuple[ToolRequest, ...] | None = None
    outcomes: tuple[ToolOutcome, ...] | None = None
    decided: Mapping[str, Decided] = _NOTHING
    """In pre-tool, by interrupt id: what was decided in the round, with what each person was shown (HK-3)."""
    known: Mapping[str, ToolOutcome] = _NOTHING
    """In pre-tool, by call id: outcomes of the round that an earlier invocation left; these calls are not made."""

    @property
    def plan(self) -> InvocationPlan:
        """The plan."""
        return self.around.plan

    @property
    def request(self) -> TurnRequest:
        """What was asked for."""
        return self.around.request

    @property
    def run(self) -> RunIdentity:
        """Who the run is."""
        return self.around.run

    @property
    def resolved(self) -> ResolvedInputs | None:
        """What RESOLVE stages published (STG-8)."""
        return self.around.resolved

    @property
    def assembly(self) -> PromptAssembly | None:
        """What the turn is opened with."""
        return self.around.assembly

    def scratch(self, namespace: str) -> dict[str, Any]:
        """Give the notes of one capability, its own in this invocation (RCX-7)."""
        return self.around.notes(namespace)
