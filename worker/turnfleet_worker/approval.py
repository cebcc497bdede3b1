"""The approval stage: calls that must be looked at wait for a person, before any call of the round starts."""

from collections.abc import Mapping, Sequence
from typing import Any

from turnfleet_kernel.approval import approval_stage
from turnfleet_kernel.contracts.stages import Stage
from turnfleet_kernel.contracts.values import ToolRequest
from turnfleet_worker.errors import ArgumentsError
from turnfleet_worker.toolport import RegisteredTool

__all__ = ["approval_stages"]


def approval_stages(tools: Sequence[RegisteredTool]) -> tuple[Stage, ...]:
    """Give the one stage that asks for these tools; none where no tool may ask.

    It belongs behind all other pre-tool stages: what a person is shown is then what runs. A stage behind it could
    change the arguments of a call that was approved, or of one that did not need to be.
    """
    asking = {tool.signature.name: tool for tool in tools if tool.policy.asks}
    if not asking:
        return ()

    async def must_ask(request: ToolRequest) -> bool:
        tool = asking.get(request.name)
        return tool is not None and await _must_ask(tool, request)

    def terms(request: ToolRequest) -> Mapping[str, Any]:
        return {"roles": list(asking[request.name].policy.roles)}

    return (approval_stage(must_ask, terms=terms),)


async def _must_ask(tool: RegisteredTool, request: ToolRequest) -> bool:
    try:
        # As the function will receive them, defaults filled in: a predicate on what the model left out would otherwise
        # pass calls that it is there to stop.
        arguments = tool.signature.bind(request.arguments)
    except ArgumentsError:
        return False  # the tool port refuses it: nobody needs to look at a call that cannot be made
    return await tool.policy.must_ask(arguments)
