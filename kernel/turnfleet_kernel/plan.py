"""The compiled plan: everything about how to run, every name bound to a port (IPL-1, IPL-3)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from turnfleet_kernel.contracts.frozen import FrozenDict
from turnfleet_kernel.contracts.limits import PlanLimits
from turnfleet_kernel.contracts.stages import EGRESS_STAGE, Phase, Stage
from turnfleet_kernel.conversation import ListConversation
from turnfleet_kernel.defaults import NoTools, SystemClock, SystemIds
from turnfleet_kernel.errors import PlanError
from turnfleet_kernel.ports import Clock, ConversationPort, EventSink, Ids, ModelPort, ResponsePort, ToolPort

__all__ = ["InvocationPlan", "ModelPalette", "PlanBindings", "PlanIdentity", "StageProgram"]

ModelChoice: TypeAlias = Callable[["InvocationPlan", Any], str]
"""Takes the plan and the RequestContext; gives a name of the palette."""

_NO_STAGES: Final[Mapping[Phase, tuple[Stage, ...]]] = MappingProxyType(dict.fromkeys(Phase, ()))


@dataclass(frozen=True, slots=True)
class PlanIdentity:
    """Which plan this is. ``plan_id`` is the generation that an invocation binds (IPL-4, RCX-5)."""

    plan_id: str
    name: str
    version: str = "1"


@dataclass(frozen=True, slots=True)
class ModelPalette:
    """Several models by name, of which an invocation uses one (IPL-6).

    ``choose`` decides from the plan and the context; by default the resolved input ``model`` does, else the model
    named "default", else the first.

    Raises:
        PlanError: the palette is empty.
    """

    models: Mapping[str, ModelPort]
    choose: ModelChoice | None = None

    def __post_init__(self) -> None:
        """Freeze the mapping; the ports in it are shared as they are."""
        if not self.models:
            raise PlanError("a palette needs at least one model")
        object.__setattr__(self, "models", FrozenDict(self.models))


@dataclass(frozen=True, slots=True)
class PlanBindings:
    """The ports of a plan. All but the model have working defaults: no tools, a list transcript, text, no sink."""

    model: ModelPort | ModelPalette
    tools: ToolPort = field(default_factory=NoTools)
    conversation: ConversationPort = field(default_factory=ListConversation)
    response: ResponsePort | None = None
    event_sink: EventSink | None = None
    clock: Clock = field(default_factory=SystemClock)
    ids: Ids = field(default_factory=SystemIds)


@dataclass(frozen=True, slots=True)
class StageProgram:
    """The plan's stages in order, indexed by phase so that an empty phase costs nothing.

    Raises:
        PlanError: the egress stage stands where it could not hold text back (STG-10).
    """

    stages: tuple[Stage, ...] = ()
    by_phase: Mapping[Phase, tuple[Stage, ...]] = field(
        init=False, repr=False, compare=False, default_factory=lambda: _NO_STAGES
    )
    phases: frozenset[Phase] = field(init=False, repr=False, compare=False, default=frozenset())
    """Those that hold a stage."""
    withholds: bool = field(init=False, repr=False, compare=False, default=False)
    """Whether deltas wait for post-model (STG-10)."""

    def __post_init__(self) -> None:
        """Index the stages once for all invocations."""
        stages = tuple(self.stages)
        egress = [stage for stage in stages if stage.stage_id == EGRESS_STAGE]
        for stage in egress:
            if stage.phase is not Phase.POST_MODEL or stage.on_error != "fail":
                msg = (
                    f"stage {EGRESS_STAGE!r} must be a {Phase.POST_MODEL.value} stage with on_error='fail', "
                    f"not {stage.phase.value} with {stage.on_error!r}"
                )
                raise PlanError(msg)
        object.__setattr__(self, "stages", stages)
        object.__setattr__(self, "withholds", bool(egress))
        if stages:
            by_phase = {phase: tuple(stage for stage in stages if stage.phase is phase) for phase in Phase}
            object.__setattr__(self, "by_phase", MappingProxyType(by_phase))
            object.__setattr__(self, "phases", frozenset(stage.phase for stage in stages))


@dataclass(frozen=True, slots=True)
class InvocationPlan:
    """What compile_plan() gives and every invocation shares (IPL-1, RCX-10)."""

    identity: PlanIdentity
    bindings: PlanBindings
    instructions: str = ""
    limits: PlanLimits = field(default_factory=PlanLimits)
    stage_program: StageProgram = field(default_factory=StageProgram)
