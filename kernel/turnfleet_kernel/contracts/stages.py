"""How a capability is declared: a handler, the phase it belongs to, and what its failure means (STG)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal, TypeAlias

from turnfleet_kernel.contracts.quick import quick_init
from turnfleet_kernel.contracts.values import PromptAssembly, ToolRequest
from turnfleet_kernel.errors import PlanError

__all__ = [
    "EGRESS_STAGE",
    "KERNEL_OWNED_PHASES",
    "OnError",
    "Phase",
    "Stage",
    "StageHandler",
    "StageResult",
    "StageTrace",
    "TraceOutcome",
]


class Phase(StrEnum):
    """Where in an invocation a stage runs. RESOLVE and COMPILE are the two passes of prompt assembly."""

    BIND = "bind"
    RESOLVE = "resolve"
    COMPILE = "compile"
    PRE_MODEL = "pre-model"
    POST_MODEL = "post-model"
    PRE_TOOL = "pre-tool"
    POST_TOOL = "post-tool"
    FINALIZE = "finalize"

    # Enum hashes by name, in Python. A phase equals its text and may hash as text, in C: it is looked up all the time.
    __hash__ = str.__hash__


KERNEL_OWNED_PHASES: Final = frozenset({Phase.BIND})
"""Phases in which no stage may be declared (STG-2)."""

EGRESS_STAGE: Final = "governance.egress"
"""The stage id that makes the loop withhold a round's deltas until post-model accepted it (STG-10)."""

OnError = Literal["fail", "continue"]
TraceOutcome = Literal["ok", "failed", "paused", "cancelled"]

StageHandler: TypeAlias = Callable[[Any], object]
"""Takes a StageFrame; gives a StageResult or None, or an awaitable of one."""


@quick_init
@dataclass(frozen=True, slots=True)
class StageResult:
    """What a stage hands back; each field belongs to one phase, anywhere else it is a ContractViolationError.

    ``publish``: RESOLVE. ``assembly``: COMPILE. ``requests``: PRE_TOOL. ``transcript``: POST_TOOL.
    """

    publish: Mapping[str, Any] | None = None
    assembly: PromptAssembly | None = None
    requests: tuple[ToolRequest, ...] | None = None
    transcript: Any = None


@quick_init
@dataclass(frozen=True, slots=True)
class StageTrace:
    """That a stage ran, how it ended and how many milliseconds it took (STG-1)."""

    stage_id: str
    phase: str
    outcome: TraceOutcome
    duration_ms: float


@dataclass(frozen=True, slots=True)
class Stage:
    """A declared stage.

    Raises:
        PlanError: a phase that belongs to the kernel (STG-2), an unknown phase or failure policy.
    """

    stage_id: str
    phase: Phase
    handler: StageHandler = field(compare=False)
    on_error: OnError = "fail"

    def __post_init__(self) -> None:
        """Refuse a stage that could never be run as declared."""
        try:
            object.__setattr__(self, "phase", Phase(self.phase))
        except ValueError:
            msg = f"stage {self.stage_id!r} names no phase: {self.phase!r}; phases are {', '.join(Phase)}"
            raise PlanError(msg) from None
        if self.phase in KERNEL_OWNED_PHASES:
            msg = f"stage {self.stage_id!r} is declared in {self.phase.value!r}, which belongs to the kernel"
            raise PlanError(msg)
        if self.on_error not in {"fail", "continue"}:
            msg = f"stage {self.stage_id!r} has on_error={self.on_error!r}; it must be 'fail' or 'continue'"
            raise PlanError(msg)
        if not callable(self.handler):
            msg = f"stage {self.stage_id!r} has a handler that cannot be called"
            raise PlanError(msg)
