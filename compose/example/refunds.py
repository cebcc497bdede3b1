"""A model without a key: it reads the order and the amount in the prompt, and asks for the refund."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from turnfleet_kernel import Delta, ModelTurn, ToolRequest, UsageDelta

ASKED = re.compile(r"order (\w+)\b.*?(\d+(?:\.\d+)?)", re.IGNORECASE | re.DOTALL)

Message = Mapping[str, Any]


class RefundRule:
    """A model port. What it says depends on the transcript alone, so any worker can go on with a run.

    `seconds`: how long each turn takes.
    """

    def __init__(self, seconds: float = 0.0) -> None:
        self._seconds = seconds

    async def invoke(self, transcript: Sequence[Message]) -> ModelTurn:
        """Return the next turn."""
        await asyncio.sleep(self._seconds)
        return next_turn(transcript)

    def stream(self, transcript: Sequence[Message]) -> "RefundRound":
        """Return the next turn, word by word."""
        return RefundRound(next_turn(transcript), self._seconds)


class RefundRound:
    """One streamed turn."""

    def __init__(self, turn: ModelTurn, seconds: float) -> None:
        self._turn = turn
        self._seconds = seconds

    async def deltas(self) -> AsyncIterator[Delta]:
        """Yield the text in words."""
        await asyncio.sleep(self._seconds)
        for word in re.findall(r"\S+\s*", self._turn.text):
            yield Delta("text", word)

    def result(self) -> ModelTurn:
        """Return the whole turn."""
        return self._turn


def next_turn(transcript: Sequence[Message]) -> ModelTurn:
    """Return what to say after this transcript: ask for the refund, then tell what became of it."""
    last = transcript[-1]
    if last["role"] == "tool":
        told = last.get("error")
        return _says(f"I am sorry: {told}" if told else f"Done: {last['content']}.")
    asked = ASKED.search(str(last["content"]))
    if asked is None:
        return _says("Which order, and how much? Say it as: order 1001, 20.00")
    call = ToolRequest(None, "refund", {"order_id": asked[1], "amount": float(asked[2])})
    return ModelTurn("I look into it. ", UsageDelta(requests=1), "tool_use", (call,))


def _says(text: str) -> ModelTurn:
    return ModelTurn(text, UsageDelta(requests=1), "stop")
