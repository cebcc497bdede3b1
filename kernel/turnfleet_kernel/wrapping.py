"""What a port wrapper passes on as it is: wrappers derive from these and say only what they do differently."""

from collections.abc import Mapping, Sequence
from typing import Any

from turnfleet_kernel.contracts.values import (
    ModelTurn,
    PromptAssembly,
    ToolDescription,
    ToolOutcome,
    ToolRequest,
)
from turnfleet_kernel.ports import ConversationPort, ToolPort, Transcript

__all__ = ["ConversationAround", "ToolsAround"]


class ToolsAround:
    """A tool port around another."""

    def __init__(self, inner: ToolPort) -> None:
        """Wrap this one."""
        self._inner = inner

    async def call(self, request: ToolRequest) -> ToolOutcome:
        """Make a call."""
        return await self._inner.call(request)

    def schema(self, name: str) -> Mapping[str, Any] | None:
        """Give a tool's schema."""
        return self._inner.schema(name)

    def names(self) -> tuple[str, ...]:
        """List the tools."""
        return self._inner.names()

    def describe(self, name: str) -> ToolDescription:
        """Describe a tool."""
        return self._inner.describe(name)


class ConversationAround:
    """A conversation port around another."""

    def __init__(self, inner: ConversationPort) -> None:
        """Wrap this one."""
        self._inner = inner

    def open_turn(self, assembly: PromptAssembly) -> Transcript:
        """Open a transcript."""
        return self._inner.open_turn(assembly)

    def close_round(
        self,
        transcript: Transcript,
        turn: ModelTurn,
        requests: Sequence[ToolRequest],
        outcomes: Sequence[ToolOutcome],
    ) -> None:
        """Close a round into the transcript."""
        self._inner.close_round(transcript, turn, requests, outcomes)

    def messages(self, transcript: Transcript) -> tuple[Any, ...]:
        """Project the transcript."""
        return self._inner.messages(transcript)

    def dump(self, transcript: Transcript) -> Any:
        """Dump the transcript."""
        return self._inner.dump(transcript)

    def load(self, value: Any) -> Transcript:
        """Load a transcript."""
        return self._inner.load(value)
