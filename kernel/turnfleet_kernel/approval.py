"""Asking a person before a call is made: a pre-tool stage (HK-5, HK-6)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from inspect import isawaitable
from typing import Any, Final, TypeAlias

from turnfleet_kernel.contracts.canonical import digest
from turnfleet_kernel.contracts.frozen import thaw
from turnfleet_kernel.contracts.interrupts import Approve, Edit, Interrupt, InvocationPaused
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
    adds to an interrupt's payload, for example ``roles`` and ``expires_at``.

    An approval is for the arguments that were shown. If what stages in front of this one make of the call is something
    else by now, it is asked about again (HK-4: they run again, and may have changed during the pause). The policy is
    asked about a call once: not again when it was let through before and its outcome is known, or it was decided.
    """

    async def approve(frame: StageFrame) -> StageResult | None:
        amended: list[ToolRequest] = []
        waiting: list[Interrupt] = []
        for request in frame.requests or ():
            decided = [each for each in frame.decided.values() if each.interrupt.call_id == request.call_id]
            last = next((each for each in reversed(decided) if _is_approval(each.interrupt)), None)
            if request.call_id in frame.known:
                must_ask = False
            elif last is not None:
                must_ask = isinstance(last.decision, Approve) and last.interrupt.payload.get("digest") != _digest(
                    request
                )
            else:
                must_ask = not decided and await _needs_approval(policy, request)
            if must_ask:
                waiting.append(_ask(frame, request, terms))
            if last is not None and isinstance(last.decision, Edit):
                request = replace(request, arguments=thaw(last.decision.arguments))  # noqa: PLW2901 - from here on
            amended.append(request)
        if waiting:
            raise InvocationPaused(*waiting)
        return StageResult(requests=tuple(amended))

    return Stage(stage_id, Phase.PRE_TOOL, approve)


def _is_approval(interrupt: Interrupt) -> bool:
    """Tell whether a stage of this kind has asked; asked again, the id has a number behind it (HK-5)."""
    first = approval_id(interrupt.call_id)
    return interrupt.kind == "approval" and (interrupt.id == first or interrupt.id.startswith(f"{first}#"))


def _digest(request: ToolRequest) -> str:
    return digest(thaw(request.arguments))


async def _needs_approval(policy: ApprovalPolicy, request: ToolRequest) -> bool:
    answer = policy(request)
    return bool(await answer if isawaitable(answer) else answer)


def _ask(frame: StageFrame, request: ToolRequest, terms: ApprovalTerms | None) -> Interrupt:
    arguments = thaw(request.arguments)
    payload: dict[str, Any] = {
        "tool": request.name,
        "arguments": arguments,
        "digest": _digest(request),
        "roles": [],
        "expires_at": None,
    }
    schema = frame.plan.bindings.tools.schema(request.name)
    if schema is not None:
        payload["schema"] = thaw(schema)
    if terms is not None:
        payload.update(terms(request))
    return Interrupt(approval_id(request.call_id), "approval", payload, request.call_id)
