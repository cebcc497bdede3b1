"""Asking a person before a call is made: a pre-tool stage (HK-5, HK-6)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from inspect import isawaitable
from typing import Any, Final, TypeAlias

from turnfleet_kernel.contracts.canonical import digest
from turnfleet_kernel.contracts.frozen import thaw
from turnfleet_kernel.contracts.interrupts import Edit, Interrupt, InvocationPaused
from turnfleet_kernel.contracts.stages import Phase, Stage, StageResult
from turnfleet_kernel.contracts.values import ToolRequest
from turnfleet_kernel.frame import StageFrame

__all__ = ["APPROVAL_STAGE", "approval_id", "approval_stage"]

APPROVAL_STAGE: Final = "turnfleet.approval"

ApprovalPolicy: TypeAlias = Callable[[ToolRequest], bool | Awaitable[bool]]
ApprovalTerms: TypeAlias = Callable[[ToolRequest], Mapping[str, Any]]


def approval_id(call_id: str | None) -> str:
    """Name the approval of a call."""
    return f"approval:{call_id}"


def approval_stage(
    policy: ApprovalPolicy, *, terms: ApprovalTerms | None = None, stage_id: str = APPROVAL_STAGE
) -> Stage:
    """Make a stage that waits for a person before each call for which the policy says so.

    All calls of a round that need one are asked about at once; none is made before all are decided. An approved call
    goes on, an edited one with its new arguments; a rejected one comes back through the tool port (HK-4). ``terms``
    adds to an interrupt's payload, for example ``roles`` and ``expires_at``. A policy must not depend on more than
    the request: it is asked again when the run goes on.
    """

    async def approve(frame: StageFrame) -> StageResult | None:
        decisions = {} if frame.resolved is None else frame.resolved.get("decisions", {})
        amended: list[ToolRequest] = []
        waiting: list[Interrupt] = []
        for request in frame.requests or ():
            decision = decisions.get(approval_id(request.call_id))
            if isinstance(decision, Edit):
                amended.append(replace(request, arguments=thaw(decision.arguments)))
                continue
            amended.append(request)
            if decision is None and await _needs_approval(policy, request):
                waiting.append(_ask(frame, request, terms))
        if waiting:
            raise InvocationPaused(*waiting)
        return StageResult(requests=tuple(amended))

    return Stage(stage_id, Phase.PRE_TOOL, approve)


async def _needs_approval(policy: ApprovalPolicy, request: ToolRequest) -> bool:
    answer = policy(request)
    return bool(await answer if isawaitable(answer) else answer)


def _ask(frame: StageFrame, request: ToolRequest, terms: ApprovalTerms | None) -> Interrupt:
    arguments = thaw(request.arguments)
    payload: dict[str, Any] = {
        "tool": request.name,
        "arguments": arguments,
        "digest": digest(arguments),
        "roles": [],
        "expires_at": None,
    }
    schema = frame.plan.bindings.tools.schema(request.name)
    if schema is not None:
        payload["schema"] = thaw(schema)
    if terms is not None:
        payload.update(terms(request))
    return Interrupt(approval_id(request.call_id), "approval", payload, request.call_id)
