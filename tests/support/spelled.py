"""A model that does what its prompt spells out; it has no state of its own, so any process can go on with a run."""

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from turnfleet_kernel import Delta, ModelTurn, ToolRequest, UsageDelta

USAGE = UsageDelta(input_tokens=10, output_tokens=2, requests=1)


class Spelled:
    """The prompt is a JSON list of steps, one a round.

    A string is a text, a list is its calls as `[call id, tool, arguments]`, `{"fail": ...}` makes the model raise, and
    any other object has `say`, `calls`, `shown` (`[kind, text]` each) and `provider`. `before` is called at each round
    with its number, and may raise.
    """

    def __init__(self, before: Callable[[int], None] = lambda _number: None) -> None:
        self._before = before

    async def invoke(self, transcript: Sequence[Mapping[str, Any]]) -> ModelTurn:
        """Give the turn of this round."""
        prompt = [message["content"] for message in transcript if message["role"] == "user"][-1]
        number = sum(1 for message in transcript if message["role"] == "assistant" and not message.get("old"))
        self._before(number)
        return spelled(json.loads(prompt)[number])

    def stream(self, transcript: Sequence[Mapping[str, Any]]) -> "SpelledRound":
        """Give the same, piece by piece."""
        return SpelledRound(self, transcript)


class SpelledRound:
    """One streamed turn."""

    def __init__(self, model: Spelled, transcript: Sequence[Mapping[str, Any]]) -> None:
        self._model, self._transcript, self._turn = model, transcript, ModelTurn()

    async def deltas(self) -> AsyncIterator[Delta]:
        """Give what the turn shows."""
        self._turn = await self._model.invoke(self._transcript)
        for delta in (Delta("text", self._turn.text),) if self._turn.shown is None else self._turn.shown:
            if delta.text:
                yield delta

    def result(self) -> ModelTurn:
        """Give the whole turn."""
        return self._turn


def spelled(step: Any) -> ModelTurn:
    """Read one step."""
    if isinstance(step, str):
        step = {"say": step}
    if isinstance(step, list):
        step = {"calls": step}
    if "fail" in step:
        raise RuntimeError(step["fail"])
    calls = tuple(ToolRequest(*each) for each in step.get("calls", ()))
    shown = step.get("shown")
    return ModelTurn(
        step.get("say", ""),
        USAGE,
        "tool_calls" if calls else "end",
        calls,
        None if shown is None else tuple(Delta(*each) for each in shown),
        step.get("provider"),
    )
