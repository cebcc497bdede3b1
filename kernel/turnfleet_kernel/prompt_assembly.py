"""From plan and request to what a turn is opened with (STG-7, STG-8)."""

from __future__ import annotations

from typing import Any, Final

from turnfleet_kernel.context import RequestContext
from turnfleet_kernel.contracts.frozen import ResolvedInputs, freeze
from turnfleet_kernel.contracts.stages import Phase
from turnfleet_kernel.contracts.values import PromptAssembly, TurnRequest
from turnfleet_kernel.errors import ContractViolationError
from turnfleet_kernel.plan import InvocationPlan
from turnfleet_kernel.rungs import CapabilityRungs

__all__ = ["assemble_prompt", "run_prompt_assembly"]

_NOTHING: Final = ResolvedInputs()


def assemble_prompt(plan: InvocationPlan, request: TurnRequest) -> PromptAssembly:
    """Assemble the prompt, without any stage: a pure function of plan and request (STG-7)."""
    return PromptAssembly(plan.instructions, request.prompt, request.attachments, request.history)


async def run_prompt_assembly(
    plan: InvocationPlan, ctx: RequestContext, request: TurnRequest, rungs: CapabilityRungs
) -> PromptAssembly:
    """Run both passes: RESOLVE publishes, the snapshot is bound once, COMPILE may amend the assembly (STG-8).

    A run that goes on has its inputs resolved: the recorded ones are bound and RESOLVE does not run again (HK-4).
    Decisions of the request are published as ``decisions``.

    Raises:
        ContractViolationError: a stage published what is taken or cannot be frozen; names the stage.
    """
    record = ctx.restored
    if record is not None and record.resolved is not None:
        published: dict[str, Any] = freeze(record.resolved)
    elif rungs.has(Phase.RESOLVE):
        published = await rungs.dispatch_resolve()
    else:
        published = _NOTHING
    if request.decisions:
        try:
            published = {**published, "decisions": freeze(request.decisions)}
        except TypeError as problem:
            raise ContractViolationError(f"run {ctx.run_id} was given decisions that are no values") from problem
    ctx.bind_resolved(ResolvedInputs(published) if published else _NOTHING)
    assembly = assemble_prompt(plan, request)
    if rungs.has(Phase.COMPILE):
        assembly = await rungs.dispatch_compile(assembly)
    rungs.settle(assembly)
    return assembly
