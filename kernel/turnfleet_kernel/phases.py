"""The phases of an invocation as operations, in the order in which the loop calls them (STG-9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from turnfleet_kernel.context import RequestContext
from turnfleet_kernel.contracts.limits import TOOL_LIMIT
from turnfleet_kernel.contracts.stages import StageHandler, StageTrace
from turnfleet_kernel.contracts.values import (
    InvocationOutcome,
    ModelTurn,
    PromptAssembly,
    ToolOutcome,
    ToolRequest,
    TurnRequest,
)
from turnfleet_kernel.errors import ContractViolationError
from turnfleet_kernel.plan import InvocationPlan
from turnfleet_kernel.ports import Transcript
from turnfleet_kernel.prompt_assembly import assemble_prompt, run_prompt_assembly
from turnfleet_kernel.rungs import CapabilityRungs
from turnfleet_kernel.structured import StructuredOutputAdapter

__all__ = ["KernelPhases"]


class KernelPhases:
    """What happens in each phase; holds nothing."""

    __slots__ = ()

    def bind(self, plan: InvocationPlan, ctx: RequestContext) -> None:
        """Begin: bind the context to the plan's generation (STG-2, RCX-5).

        Raises:
            ContractViolationError: the context is another plan's, or has been used before.
        """
        if ctx.plan is not plan:
            msg = f"the context of run {ctx.run_id} was made for another plan than {plan.identity.name!r}"
            raise ContractViolationError(msg)
        ctx.bind_generation(plan.identity.plan_id)

    def assemble_prompt(self, plan: InvocationPlan, request: TurnRequest) -> PromptAssembly:
        """Assemble the prompt: pure and synchronous (STG-7)."""
        return assemble_prompt(plan, request)

    def open_turn(self, plan: InvocationPlan, ctx: RequestContext, request: TurnRequest) -> Transcript:
        """Open the transcript without dispatching any stage (STG-9)."""
        ctx.transcript = plan.bindings.conversation.open_turn(self.assemble_prompt(plan, request))
        return ctx.transcript

    async def open_turn_dispatched(
        self,
        plan: InvocationPlan,
        ctx: RequestContext,
        request: TurnRequest,
        *,
        handlers: Mapping[str, StageHandler] | None = None,
        rungs: CapabilityRungs | None = None,
    ) -> tuple[Transcript, tuple[StageTrace, ...]]:
        """Run prompt assembly with its stages and open the transcript with what they left (STG-8, STG-9).

        ``handlers`` replaces the handlers of stages by their id. Gives the transcript and the traces, which stay on
        the context until they are events.
        """
        rungs = rungs or CapabilityRungs(plan, ctx, request, handlers)
        assembly = await run_prompt_assembly(plan, ctx, request, rungs)
        ctx.transcript = plan.bindings.conversation.open_turn(assembly)
        return ctx.transcript, tuple(ctx.traces)

    def adopt_transcript(self, ctx: RequestContext, transcript: Transcript) -> None:
        """Go on with the transcript that post-tool stages left (STG-3)."""
        ctx.transcript = transcript

    def limit_reached(self, plan: InvocationPlan, ctx: RequestContext) -> str | None:
        """Give the stop reason of the limit that forbids another model round, None if none does (STG-6)."""
        limits = plan.limits
        if ctx.rounds >= limits.max_model_rounds:
            return TOOL_LIMIT
        for figure, bound, stop_reason in ctx.usage_limits:
            if getattr(ctx.usage, figure) >= bound:
                return stop_reason
        return None

    def reserve_requests(self, ctx: RequestContext, turn: ModelTurn) -> tuple[ToolRequest, ...]:
        """Give the turn's requests with call ids that are unique in the run (RES-3)."""
        return tuple(map(ctx.reserve, turn.tool_requests))

    def accept_turn(self, ctx: RequestContext, turn: ModelTurn) -> tuple[ToolRequest, ...]:
        """Absorb a turn that post-model accepted; gives its requests as reserved."""
        ctx.absorb(turn.text, turn.usage, turn.stop_reason)
        requests = self.reserve_requests(ctx, turn) if turn.tool_requests else ()
        ctx.accept_turn(turn, requests)
        return requests

    def record_tools(self, ctx: RequestContext, outcomes: Sequence[ToolOutcome]) -> None:
        """Close the round on the context: its outcomes, and what its calls spent."""
        ctx.close_round(outcomes)

    async def finish(
        self, plan: InvocationPlan, ctx: RequestContext, transcript: Transcript, *, limit: str | None = None
    ) -> InvocationOutcome[Any]:
        """Extract the output and project the messages, before anything is committed (STG-5)."""
        ctx.lifecycle.check("finishing")
        output = await StructuredOutputAdapter.attach(plan).output(ctx, transcript, cut_short=limit is not None)
        messages = plan.bindings.conversation.messages(transcript)
        ctx.finish(output, messages, limit or ctx.stop_reason)
        return self.conclude(ctx)

    def conclude(self, ctx: RequestContext) -> InvocationOutcome[Any]:
        """Give the outcome of a finished run, its duration measured now (STG-5)."""
        ctx.refresh_duration()
        return ctx.outcome()
