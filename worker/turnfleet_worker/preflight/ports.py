"""The ports of a rehearsal: they know and check everything, and do nothing.

They stand where a worker's journal stands: beneath the kernel's replay ports, so that what is recorded never gets
here. The first thing that does is what the run would do next; it is noted, and the rehearsal ends there.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import isawaitable
from typing import Any, Final

from turnfleet_kernel import InvocationKernel, RequestContext
from turnfleet_kernel.approval import APPROVAL_STAGE
from turnfleet_kernel.calls import current_call
from turnfleet_kernel.contracts.interrupts import InvocationPreempted
from turnfleet_kernel.contracts.stages import Phase, Stage, StageHandler
from turnfleet_kernel.contracts.values import ModelTurn, ToolOutcome, ToolRequest
from turnfleet_kernel.plan import InvocationPlan, ModelPalette, StageProgram
from turnfleet_kernel.ports import ConversationPort, ModelPort, ModelRound, ToolPort, Transcript
from turnfleet_kernel.rounds import OpenRound
from turnfleet_kernel.wrapping import ConversationAround, ToolsAround
from turnfleet_worker.fold import NOTHING_KNOWN, Known
from turnfleet_worker.models.named import NamedModel
from turnfleet_worker.policy import ToolPolicy
from turnfleet_worker.toolport import BoundTools

REPLAYED: Final = frozenset({Phase.COMPILE, Phase.PRE_MODEL, Phase.POST_MODEL, Phase.PRE_TOOL})
"""The phases whose stages run again when a recorded turn is replayed (HK-4); they must be idempotent anyway."""


class WouldHappen(InvocationPreempted):
    """The rehearsal is over: here the run would do something that is not recorded. `reason` says what."""


@dataclass(slots=True)
class Scene:
    """One run of a tree in rehearsal: what was noted on the way. The root has one, and each delegated run."""

    context: RequestContext | None = None
    notes: list[str] = field(default_factory=list)
    supposed: set[str] = field(default_factory=set)
    """Call ids that would be made, or asked about, now."""
    refused: list[tuple[str, Exception]] = field(default_factory=list)
    """Stages that raised, and what."""
    closed: OpenRound | None = None
    """The recorded round, once all of its calls had an outcome."""

    @property
    def round(self) -> OpenRound | None:
        """The recorded round, closed or not; None where the run stands between two."""
        return self.closed or (self.context.round if self.context else None)


class Rehearsal:
    """Makes plans fit to be rehearsed, and keeps what came of each run. It is the `ChildPlans` of delegated runs.

    `known`: what the journal knows of each run's open round. `stages`: whether the user's stages run where they would
    run again.
    """

    def __init__(self, *, known: Mapping[str, Known], policy: Callable[[str], ToolPolicy | None], stages: bool) -> None:
        self._known = known
        self._policy = policy
        self._stages = stages
        self.scenes: list[Scene] = []

    def prepare(self, plan: InvocationPlan) -> tuple[InvocationKernel, InvocationPlan]:
        """Give the plan of a delegated run, and the kernel that runs it."""
        call = current_call()
        replayed = call is not None and call.child is not None and call.child.turn is not None
        return self.rehearsed(plan, replayed=replayed)

    def rehearsed(self, plan: InvocationPlan, *, replayed: bool) -> tuple[InvocationKernel, InvocationPlan]:
        """Give a plan whose ports do nothing. `replayed`: its run stands in a recorded turn."""
        scene = Scene()
        self.scenes.append(scene)
        bindings = plan.bindings
        asked: ModelPort | ModelPalette = UnaskedModel(
            bindings.model.name if isinstance(bindings.model, NamedModel) else None
        )
        if isinstance(bindings.model, ModelPalette):
            asked = replace(bindings.model, models={name: UnaskedModel(name) for name in bindings.model.models})
        stages = tuple(self._stage(stage, scene, replayed=replayed) for stage in plan.stage_program.stages)
        unbound = replace(
            plan,
            # How long a rehearsal takes is none of the run's time.
            limits=replace(plan.limits, deadline_seconds=None),
            stage_program=StageProgram(stages),
            bindings=replace(
                bindings,
                model=asked,
                tools=UncalledTools(bindings.tools, scene, self._doubtful, self._policy),
                conversation=UnclosedConversation(bindings.conversation, scene),
                event_sink=None,
            ),
        )
        return _Watched(scene), unbound

    def _doubtful(self, run_id: str) -> Mapping[str, Any]:
        return self._known.get(run_id, NOTHING_KNOWN).doubtful

    def _stage(self, stage: Stage, scene: Scene, *, replayed: bool) -> Stage:
        if stage.stage_id == APPROVAL_STAGE:
            return stage  # the fleet's own: it asks nobody and nothing
        if not replayed or stage.phase not in REPLAYED:
            return replace(stage, handler=_never_run(stage))
        return replace(stage, handler=_run_again(stage, scene) if self._stages else _passed_by)


class _Watched(InvocationKernel):
    """A kernel for one run, whose context is made inside of the delegation and is seen here."""

    __slots__ = ("_scene",)

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    def bind(self, plan: InvocationPlan, ctx: RequestContext) -> None:
        self._scene.context = ctx
        super().bind(plan, ctx)


def _passed_by(_frame: Any) -> None:
    return None


def _never_run(stage: Stage) -> StageHandler:
    def handler(_frame: Any) -> None:
        raise WouldHappen(f"runs its stage {stage.stage_id}")

    return handler


def _run_again(stage: Stage, scene: Scene) -> StageHandler:
    async def handler(frame: Any) -> Any:
        try:
            given = stage.handler(frame)
            return await given if isawaitable(given) else given
        except Exception as error:
            if stage.on_error == "fail":
                scene.refused.append((stage.stage_id, error))
            raise

    return handler


class UnaskedModel:
    """A model that is not asked."""

    def __init__(self, name: str | None) -> None:
        self._what = "asks its model" if name is None else f"asks the model {name}"

    async def invoke(self, transcript: Transcript) -> ModelTurn:
        """Say that the model would be asked."""
        del transcript
        raise WouldHappen(self._what)

    def stream(self, transcript: Transcript) -> ModelRound:
        """Say that the model would be asked."""
        del transcript
        raise WouldHappen(self._what)


class UncalledTools(ToolsAround):
    """Tools that are not called: each call is checked and noted, and the round goes on as if it had been made."""

    def __init__(
        self,
        inner: ToolPort,
        scene: Scene,
        doubtful: Callable[[str], Mapping[str, Any]],
        policy: Callable[[str], ToolPolicy | None],
    ) -> None:
        super().__init__(inner)
        self._scene = scene
        self._doubtful = doubtful
        self._policy = policy

    async def call(self, request: ToolRequest) -> ToolOutcome:
        """Note what the run would do with this call."""
        call_id, name = request.call_id or "", request.name
        call = current_call()
        if call is not None and call.child is not None:
            return await self._go_on(request, call.child.run_id)
        problem = self._inner.problem(request) if isinstance(self._inner, BoundTools) else None
        if problem is not None:
            return ToolOutcome(call_id, name, error=problem)
        self._scene.supposed.add(call_id)
        self._scene.notes.append(self._next(call_id, name))
        return ToolOutcome(call_id, name)

    def _next(self, call_id: str, name: str) -> str:
        policy = self._policy(name)
        run_id = self._scene.context.run_id if self._scene.context else ""
        if call_id not in self._doubtful(run_id) or policy is None or policy.idempotent:
            return f"calls {name}"
        if policy.reconcile is not None:
            return f"finds out whether its call of {name} happened"
        return f"asks whether its call of {name} happened"

    async def _go_on(self, request: ToolRequest, child_id: str) -> ToolOutcome:
        """Rehearse a delegated run: its tool does nothing but to run it, on ports of ours."""
        try:
            outcome = await self._inner.call(request)
        except WouldHappen as what:
            self._scene.supposed.add(request.call_id or "")
            self._scene.notes.append(f"goes on with {child_id}, which {what.reason}")
            return ToolOutcome(request.call_id or "", request.name)
        if outcome.error is None:
            self._scene.notes.append(f"takes the result of {child_id}")
        return outcome


class UnclosedConversation(ConversationAround):
    """A conversation that closes no round whose calls were not made."""

    def __init__(self, inner: ConversationPort, scene: Scene) -> None:
        super().__init__(inner)
        self._scene = scene

    def close_round(
        self,
        transcript: Transcript,
        turn: ModelTurn,
        requests: Sequence[ToolRequest],
        outcomes: Sequence[ToolOutcome],
    ) -> None:
        """Close a round that is wholly recorded; end the rehearsal at another."""
        if self._scene.context is not None:
            self._scene.closed = self._scene.context.round
        if self._scene.supposed:
            raise WouldHappen(" and ".join(self._scene.notes))
        self._inner.close_round(transcript, turn, requests, outcomes)
