"""turnfleet's kernel: runs one invocation of an agent plan, in process.

::

    kernel = InvocationKernel()
    outcome = await kernel.run(plan, TurnRequest("hi"))
    async for event in kernel.stream(plan, TurnRequest("hi")):
        ...

Values are here at once; the engine's names are loaded when they are first used. Whoever only speaks of runs
(a service that enqueues them) never loads what runs them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from turnfleet_kernel.contracts.events import PAUSE_KINDS, TERMINAL_KINDS, KernelEvent
from turnfleet_kernel.contracts.frozen import ResolvedInputs
from turnfleet_kernel.contracts.interrupts import (
    Answer,
    Approve,
    Decided,
    Decision,
    Edit,
    Interrupt,
    InvocationPaused,
    InvocationPreempted,
    Reject,
    Retry,
)
from turnfleet_kernel.contracts.limits import TOOL_LIMIT, PlanLimits
from turnfleet_kernel.contracts.record import PauseRecord
from turnfleet_kernel.contracts.spec import PlanSpec, StageSpec, plan_id
from turnfleet_kernel.contracts.stages import KERNEL_OWNED_PHASES, Phase, Stage, StageResult, StageTrace
from turnfleet_kernel.contracts.values import (
    Delta,
    InvocationOutcome,
    ModelTurn,
    PausedOutcome,
    PromptAssembly,
    RunIdentity,
    ToolDescription,
    ToolOutcome,
    ToolRequest,
    TurnRequest,
    UsageDelta,
)
from turnfleet_kernel.errors import (
    ContractViolationError,
    DeadlineExceeded,
    DelegationDepthError,
    InvalidDecision,
    PauseRecordError,
    PlanError,
    StepCancelledError,
    TurnfleetError,
)

if TYPE_CHECKING:
    from turnfleet_kernel.approval import approval_stage
    from turnfleet_kernel.calls import ToolCall, current_call
    from turnfleet_kernel.compile import compile_plan
    from turnfleet_kernel.context import RequestContext
    from turnfleet_kernel.delegating import delegate
    from turnfleet_kernel.delegation import ActiveRun, DelegationContext
    from turnfleet_kernel.frame import StageFrame
    from turnfleet_kernel.identity import current_run_identity
    from turnfleet_kernel.invoker import InvocationKernel
    from turnfleet_kernel.pausing import record_pause
    from turnfleet_kernel.plan import InvocationPlan, ModelPalette, PlanBindings, PlanIdentity, StageProgram
    from turnfleet_kernel.resuming import resume
    from turnfleet_kernel.runner import InvocationRunner
    from turnfleet_kernel.teardown import TeardownReport

__all__ = [
    "KERNEL_OWNED_PHASES",
    "PAUSE_KINDS",
    "TERMINAL_KINDS",
    "TOOL_LIMIT",
    "ActiveRun",
    "Answer",
    "Approve",
    "ContractViolationError",
    "DeadlineExceeded",
    "Decided",
    "Decision",
    "DelegationContext",
    "DelegationDepthError",
    "Delta",
    "Edit",
    "Interrupt",
    "InvalidDecision",
    "InvocationKernel",
    "InvocationOutcome",
    "InvocationPaused",
    "InvocationPlan",
    "InvocationPreempted",
    "InvocationRunner",
    "KernelEvent",
    "ModelPalette",
    "ModelTurn",
    "PauseRecord",
    "PauseRecordError",
    "PausedOutcome",
    "Phase",
    "PlanBindings",
    "PlanError",
    "PlanIdentity",
    "PlanLimits",
    "PlanSpec",
    "PromptAssembly",
    "Reject",
    "RequestContext",
    "ResolvedInputs",
    "Retry",
    "RunIdentity",
    "Stage",
    "StageFrame",
    "StageProgram",
    "StageResult",
    "StageSpec",
    "StageTrace",
    "StepCancelledError",
    "TeardownReport",
    "ToolCall",
    "ToolDescription",
    "ToolOutcome",
    "ToolRequest",
    "TurnRequest",
    "TurnfleetError",
    "UsageDelta",
    "approval_stage",
    "compile_plan",
    "current_call",
    "current_run_identity",
    "delegate",
    "plan_id",
    "record_pause",
    "resume",
]

_ENGINE: Final = {
    name: module
    for module, names in {
        "approval": "approval_stage",
        "calls": "ToolCall current_call",
        "compile": "compile_plan",
        "context": "RequestContext",
        "delegating": "delegate",
        "delegation": "ActiveRun DelegationContext",
        "frame": "StageFrame",
        "identity": "current_run_identity",
        "invoker": "InvocationKernel",
        "pausing": "record_pause",
        "plan": "InvocationPlan ModelPalette PlanBindings PlanIdentity StageProgram",
        "resuming": "resume",
        "runner": "InvocationRunner",
        "teardown": "TeardownReport",
    }.items()
    for name in names.split()
}
"""Where each of the engine's names is at home."""


def __getattr__(name: str) -> Any:
    """Load a name of the engine."""
    if name not in _ENGINE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_ENGINE[name]}"), name)
    return value


def __dir__() -> list[str]:
    """List all names, loaded or not."""
    return sorted(set(globals()) | set(__all__))
