"""The default conversation port: a transcript is a list of JSON messages."""

from collections.abc import Mapping, Sequence
from typing import Any

from turnfleet_kernel.contracts.frozen import thaw
from turnfleet_kernel.contracts.values import ModelTurn, PromptAssembly, ToolOutcome, ToolRequest

__all__ = ["ListConversation", "Message"]

Message = dict[str, Any]


class ListConversation:
    """Transcripts as lists of dicts with ``role`` ("system", "user", "assistant", "tool") and ``content``.

    An assistant message that asked for tools has ``tool_calls``: ``{"id", "name", "arguments"}`` each; one whose turn
    came with something of the provider's own has that as ``provider``. A tool message
    has ``call_id`` and ``name``, and ``error`` where the call failed. A user message has ``attachments`` where there
    are any. Holds no state: one object serves all invocations.
    """

    def open_turn(self, assembly: PromptAssembly) -> list[Message]:
        """Start with the instructions (if any), the history and the prompt.

        A history may be the messages of an earlier outcome, which begin with the same instructions: they stand once.
        """
        told: Message = {"role": "system", "content": assembly.instructions}
        opened: list[Message] = [told] if assembly.instructions else []
        opened.extend(message for message in map(thaw, assembly.history) if message != told)
        prompt: Message = {"role": "user", "content": assembly.prompt}
        if assembly.attachments:
            prompt["attachments"] = thaw(assembly.attachments)
        opened.append(prompt)
        return opened

    def close_round(
        self,
        transcript: list[Message],
        turn: ModelTurn,
        requests: Sequence[ToolRequest],
        outcomes: Sequence[ToolOutcome],
    ) -> None:
        """Append the assistant's message and one tool message for each outcome."""
        said: Message = {"role": "assistant", "content": turn.text}
        if requests:
            said["tool_calls"] = [
                {"id": request.call_id, "name": request.name, "arguments": thaw(request.arguments)}
                for request in requests
            ]
        if turn.provider is not None:
            said["provider"] = thaw(turn.provider)
        transcript.append(said)
        for outcome in outcomes:
            heard: Message = {"role": "tool", "call_id": outcome.call_id, "name": outcome.name}
            if outcome.error is None:
                heard["content"] = thaw(outcome.value)
            else:
                heard["content"] = outcome.error
                heard["error"] = outcome.error
            transcript.append(heard)

    def messages(self, transcript: list[Message]) -> tuple[Message, ...]:
        """Give the messages as they stand."""
        return tuple(transcript)

    def dump(self, transcript: list[Message]) -> list[Message]:
        """Copy the list: a later round does not change what was dumped."""
        return list(transcript)

    def load(self, value: Any) -> list[Message]:
        """Copy the list: what is appended does not change the record.

        Raises:
            ValueError: it is no list of messages; another kind of conversation dumped it.
        """
        if not isinstance(value, list | tuple) or not all(
            isinstance(each, Mapping) and "role" in each for each in value
        ):
            raise ValueError("what was recorded is no list of messages with roles")
        return list(value)
