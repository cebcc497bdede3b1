"""Running the stages of a phase, in program order (STG-1, STG-3, STG-4)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from dataclasses import replace
from inspect import isawaitable
from types import MappingProxyType
from typing import Any

from turnfleet_kernel.context import RequestContext
from turnfleet_kernel.contracts.frozen import freeze
from turnfleet_kernel.contracts.interrupts import InvocationPaused
from turnfleet_kernel.contracts.stages import Phase, Stage, StageHandler, StageResult, StageTrace, TraceOutcome
from turnfleet_kernel.contracts.values import (
    ModelTurn,
    PromptAssembly,
    ToolOutcome,
    ToolRequest,
    TurnRequest,
)
from turnfleet_kernel.errors import ContractViolationError
from turnfleet_kernel.frame import Around, StageFrame
from turnfleet_kernel.plan import InvocationPlan
from turnfleet_kernel.ports import Transcript
from turnfleet_kernel.teardown import describe

__all__ = ["CapabilityRungs"]

_MAY_RETURN: Mapping[Phase, str | None] = {
    Phase.RESOLVE: "publish",
    Phase.COMPILE: "assembly",
    Phase.PRE_MODEL: None,
    Phase.POST_MODEL: None,
    Phase.PRE_TOOL: "requests",
    Phase.POST_TOOL: "transcript",
    Phase.FINALIZE: None,
}
"""The one field of a StageResult that each phase takes."""

_FIELDS = ("publish", "assembly", "requests", "transcript")
_NOTHING = StageResult()


class CapabilityRungs:
    """The stages of one invocation. Traces are left on the context, also when a stage fails."""

    __slots__ = ("_around", "_ctx", "_handlers", "_plan")

    def __init__(
        self,
        plan: InvocationPlan,
        ctx: RequestContext,
        request: TurnRequest,
        handlers: Mapping[str, StageHandler] | None = None,
    ) -> None:
        """Attach to an invocation; ``handlers`` replaces the handlers of stages by their id."""
        self._plan = plan
        self._ctx = ctx
        self._handlers = handlers or {}
        self._around = Around(plan, request, ctx.identity, ctx.scratch, ctx.resolved)

    def settle(self, assembly: PromptAssembly) -> None:
        """Show stages from here on what the inputs were resolved to, and the assembly as it is now."""
        before, ctx = self._around, self._ctx
        self._around = Around(before.plan, before.request, before.run, before.notes, ctx.resolved, assembly)

    def has(self, phase: Phase) -> bool:
        """Tell whether a phase holds any stage: an empty one is not dispatched."""
        return phase in self._plan.stage_program.phases

    async def dispatch_resolve(self) -> dict[str, Any]:
        """Run the RESOLVE stages; gives what they published.

        Raises:
            ContractViolationError: a key published twice; names the stage.
        """
        published: dict[str, Any] = {}
        frame = StageFrame(self._around, Phase.RESOLVE)
        for stage in self._plan.stage_program.by_phase[Phase.RESOLVE]:
            for key, value in ((await self._run(stage, frame)).publish or {}).items():
                if key in published or key == "decisions":
                    raise ContractViolationError(f"stage {stage.stage_id!r} publishes {key!r}, which is taken")
                published[key] = _frozen(stage, key, value)
        return published

    async def dispatch_compile(self, assembly: PromptAssembly) -> PromptAssembly:
        """Run the COMPILE stages; each sees the assembly that the one before left."""
        for stage in self._plan.stage_program.by_phase[Phase.COMPILE]:
            self.settle(assembly)
            assembly = (await self._run(stage, StageFrame(self._around, Phase.COMPILE))).assembly or assembly
        return assembly

    def dispatch_pre_model(self, transcript: Transcript) -> Awaitable[None]:
        """Run the stages before a model call."""
        return self._run_all(StageFrame(self._around, Phase.PRE_MODEL, transcript))

    def dispatch_post_model(self, transcript: Transcript, turn: ModelTurn) -> Awaitable[None]:
        """Run the stages that judge a finished turn before withheld text of it leaves."""
        return self._run_all(StageFrame(self._around, Phase.POST_MODEL, transcript, turn))

    async def dispatch_pre_tool(
        self, transcript: Transcript, turn: ModelTurn, requests: tuple[ToolRequest, ...]
    ) -> tuple[ToolRequest, ...]:
        """Run the stages before a round's calls; gives the requests as amended.

        Raises:
            ContractViolationError: a stage invented or dropped a call id; names the stage.
            InvocationPaused: a stage waits for people; no call of the round has started.
        """
        turn_round = self._ctx.current_round
        frame = StageFrame(self._around, Phase.PRE_TOOL, transcript, turn, requests)
        if turn_round.replayed:
            frame = replace(frame, decided=turn_round.decisions, known=MappingProxyType(turn_round.outcomes))
        for stage in self._plan.stage_program.by_phase[Phase.PRE_TOOL]:
            amended = (await self._run(stage, frame)).requests
            if amended is not None:
                frame = replace(frame, requests=_same_calls(stage, frame.requests or (), amended))
        return frame.requests or ()

    async def dispatch_post_tool(
        self,
        transcript: Transcript,
        turn: ModelTurn,
        requests: tuple[ToolRequest, ...],
        outcomes: tuple[ToolOutcome, ...],
    ) -> Transcript:
        """Run the stages after a round was closed; gives the transcript, possibly replaced."""
        frame = StageFrame(self._around, Phase.POST_TOOL, transcript, turn, requests, outcomes)
        for stage in self._plan.stage_program.by_phase[Phase.POST_TOOL]:
            replacement = (await self._run(stage, frame)).transcript
            if replacement is not None:
                frame = replace(frame, transcript=replacement)
        return frame.transcript

    def dispatch_finalize(self, transcript: Transcript) -> Awaitable[None]:
        """Run the stages that commit a finished run."""
        return self._run_all(StageFrame(self._around, Phase.FINALIZE, transcript, outcomes=self._ctx.tool_outcomes))

    # -- one stage

    async def _run_all(self, frame: StageFrame) -> None:
        for stage in self._plan.stage_program.by_phase[frame.phase]:
            await self._run(stage, frame)

    async def _run(self, stage: Stage, frame: StageFrame) -> StageResult:
        lifecycle, clock = self._ctx.lifecycle, self._plan.bindings.clock
        began = clock.monotonic()
        outcome: TraceOutcome = "failed"
        try:
            handler, doing = self._handlers.get(stage.stage_id, stage.handler), f"running stage {stage.stage_id}"
            given = lifecycle.call(handler, frame, doing=doing)
            if given is not None and not isinstance(given, StageResult) and isawaitable(given):
                given = await lifecycle.bounded(given, doing=doing)
            outcome = "ok"
        except InvocationPaused as pause:
            outcome = "paused"
            if stage.phase is not Phase.PRE_TOOL:
                outcome = "failed"
                msg = f"stage {stage.stage_id!r} paused in {stage.phase.value}; only a pre-tool stage may"
                raise ContractViolationError(msg) from pause
            raise
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        except Exception as error:
            if lifecycle.owns_timeout(error):
                outcome = "cancelled"
                raise
            lifecycle.notes.stage_failures.append(describe(f"stage {stage.stage_id}", error))
            if stage.on_error == "fail":
                raise
            return _NOTHING
        finally:
            duration_ms = (clock.monotonic() - began) * 1000
            self._ctx.traces.append(StageTrace(stage.stage_id, stage.phase, outcome, duration_ms))
        return _checked(stage, given)


def _checked(stage: Stage, given: object) -> StageResult:
    """Hold a stage to what its phase may return."""
    if given is None:
        return _NOTHING
    if not isinstance(given, StageResult):
        msg = f"stage {stage.stage_id!r} returned a {type(given).__name__}; it may return a StageResult or None"
        raise ContractViolationError(msg)
    allowed = _MAY_RETURN[stage.phase]
    for name in _FIELDS:
        if name != allowed and getattr(given, name) is not None:
            raise ContractViolationError(f"stage {stage.stage_id!r} returned {name!r} from {stage.phase.value}")
    return given


def _frozen(stage: Stage, key: str, value: object) -> Any:
    try:
        return freeze(value)
    except TypeError as problem:
        raise ContractViolationError(f"stage {stage.stage_id!r} publishes {key!r}: {problem}") from problem


def _same_calls(
    stage: Stage, before: tuple[ToolRequest, ...], amended: tuple[ToolRequest, ...]
) -> tuple[ToolRequest, ...]:
    """Give amended requests in the order of the original ones; none may be missing or new."""
    by_id = {request.call_id: request for request in amended}
    ids = [request.call_id for request in before]
    if len(amended) != len(ids) or by_id.keys() != set(ids):
        dropped = [str(call_id) for call_id in ids if call_id not in by_id]
        invented = [str(request.call_id) for request in amended if request.call_id not in ids]
        msg = (
            f"stage {stage.stage_id!r} may amend requests, not choose them: "
            f"dropped {', '.join(dropped) or 'none'}, invented {', '.join(invented) or 'none'}, "
            f"{len(amended)} returned for {len(ids)}"
        )
        raise ContractViolationError(msg)
    return tuple(by_id[call_id] for call_id in ids)
