"""The approval stage: calls that must be looked at wait for a person, before any call of the round starts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from turnfleet_kernel.contracts.canonical import digest
from turnfleet_kernel.contracts.frozen import thaw
from turnfleet_kernel.contracts.interrupts import Decision, Edit, Interrupt, InvocationPaused
from turnfleet_kernel.contracts.plain import plain_json
from turnfleet_kernel.contracts.stages import Phase, Stage, StageResult
from turnfleet_kernel.contracts.values import ToolRequest
from turnfleet_worker.errors import ArgumentsError
from turnfleet_worker.toolport import RegisteredTool

__all__ = ["APPROVAL_STAGE", "approval_stages"]

APPROVAL_STAGE = "turnfleet.approval"


def approval_stages(tools: Sequence[RegisteredTool]) -> tuple[Stage, ...]:
    """Give the one stage that asks for these tools; none where no tool may ask.

    It belongs behind all other pre-tool stages: what a person is shown is then what runs. A stage behind it could
    change the arguments of a call that was approved, or of one that did not need to be.
    """
    asking = {tool.signature.name: tool for tool in tools if tool.policy.asks}
    return (Stage(APPROVAL_STAGE, Phase.PRE_TOOL, _Approval(asking)),) if asking else ()


class _Approval:
    """Runs again on the replayed turn after a resume, and then finds the decisions (HK-4)."""

    def __init__(self, tools: Mapping[str, RegisteredTool]) -> None:
        self._tools = tools

    def __call__(self, frame: Any) -> StageResult | None:
        requests: tuple[ToolRequest, ...] = frame.requests
        decisions: Mapping[str, Decision] = (frame.resolved or {}).get("decisions", {})
        taken = [decisions.get(_interrupt_id(request)) for request in requests]
        open_calls = [
            self._interrupt(request)
            for request, decision in zip(requests, taken, strict=True)
            if decision is None and self._must_ask(request)
        ]
        if open_calls:
            raise InvocationPaused(*open_calls)
        if not any(isinstance(decision, Edit) for decision in taken):
            return None
        return StageResult(
            requests=tuple(
                replace(request, arguments=decision.arguments) if isinstance(decision, Edit) else request
                for request, decision in zip(requests, taken, strict=True)
            )
        )

    def _must_ask(self, request: ToolRequest) -> bool:
        tool = self._tools.get(request.name)
        if tool is None:
            return False
        try:
            # As the function will receive them, defaults filled in: a predicate on what the model left out would pass
            # calls that it is there to stop.
            arguments = tool.signature.bind(request.arguments)
        except ArgumentsError:
            return False  # the tool port refuses it: nobody needs to look at a call that cannot be made
        return tool.policy.must_ask(arguments)

    def _interrupt(self, request: ToolRequest) -> Interrupt:
        policy = self._tools[request.name].policy
        arguments = plain_json(thaw(request.arguments))
        payload = {
            "tool": request.name,
            "arguments": arguments,
            "digest": digest(arguments),
            "roles": list(policy.roles),
            "expires_at": None,  # the fleet's clock decides, when it writes the pause
            "schema": thaw(policy.schema),
        }
        return Interrupt(_interrupt_id(request), "approval", payload, request.call_id)


def _interrupt_id(request: ToolRequest) -> str:
    return f"approval:{request.call_id}"
