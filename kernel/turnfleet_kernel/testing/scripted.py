"""A model that says what it was told to say."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterable
from itertools import chain
from typing import Any, TypeAlias

from turnfleet_kernel.contracts.values import Delta, ModelTurn, ToolRequest, UsageDelta
from turnfleet_kernel.identity import current_run_identity
from turnfleet_kernel.ports import ModelRound, Transcript

__all__ = ["ScriptedModel", "Step", "call", "calls"]

Step: TypeAlias = "ModelTurn | str | BaseException | tuple[float, Step]"
"""A turn, its text, an exception to raise, or one of these after so many seconds."""


def call(name: str, /, call_id: str | None = None, **arguments: Any) -> ModelTurn:
    """Give a turn that asks for one tool call."""
    return calls(ToolRequest(call_id, name, arguments))


def calls(*requests: ToolRequest | ModelTurn, text: str = "") -> ModelTurn:
    """Give a turn that asks for several tool calls at once: requests, or turns such as ``call()`` gives."""
    asked = [each.tool_requests if isinstance(each, ModelTurn) else (each,) for each in requests]
    return ModelTurn(text, UsageDelta(requests=1), "tool_calls", tuple(chain.from_iterable(asked)))


class ScriptedModel:
    """A model that says what it was told to say, step by step, in each run from the first.

    Which step is next is counted by run; a run that goes on in another process (or with another ScriptedModel) goes
    on where its transcript stands. A step that was cut off is taken again. ``calls`` keeps the transcript of every call
    as it was then. Streams word by word.

    Raises:
        AssertionError: a run asks for more steps than there are.
        TypeError: the steps are a lone text, or one of them is no step.
    """

    def __init__(self, steps: Iterable[Step]) -> None:
        """Say these steps."""
        if isinstance(steps, str):
            msg = f"a script is a list of steps: ScriptedModel([{steps!r:.80}])"
            raise TypeError(msg)
        self._steps = tuple(steps)
        for number, step in enumerate(self._steps, 1):
            _check_step(number, step)
        self._next: dict[str | None, int] = {}
        self.calls: list[Any] = []

    async def invoke(self, transcript: Transcript) -> ModelTurn:
        """Take the next step."""
        return await self._take(self._place(transcript))

    def stream(self, transcript: Transcript) -> ModelRound:
        """Take the next step, word by word."""
        return _ScriptedRound(self, self._place(transcript))

    def _place(self, transcript: Transcript) -> int:
        self.calls.append(list(transcript) if isinstance(transcript, list) else transcript)
        run_id = _run_id()
        place = max(self._next.get(run_id, 0), _turns_taken(transcript))
        self._next[run_id] = place + 1
        return place

    def _give_back(self, place: int) -> None:
        run_id = _run_id()
        self._next[run_id] = min(self._next.get(run_id, 0), place)

    async def _take(self, place: int) -> ModelTurn:
        if place >= len(self._steps):
            raise AssertionError(f"the script has {len(self._steps)} steps; step {place + 1} was asked for")
        step = self._steps[place]
        while isinstance(step, tuple):
            delay, step = step
            try:
                await asyncio.sleep(delay)
            except asyncio.CancelledError:
                self._give_back(place)
                raise
        if isinstance(step, BaseException):
            raise step
        return step if isinstance(step, ModelTurn) else ModelTurn(step, UsageDelta(requests=1), "stop")


def _check_step(number: int, step: object) -> None:
    match step:
        case str() | ModelTurn() | BaseException():
            return
        case (int() | float(), inner):
            _check_step(number, inner)
        case _:
            msg = (
                f"step {number} of the script is a {type(step).__name__}; a step is a text, a turn (as call() and "
                "calls() give), an exception to raise, or (seconds, step)"
            )
            raise TypeError(msg)


class _ScriptedRound:
    def __init__(self, model: ScriptedModel, place: int) -> None:
        self._model = model
        self._place = place
        self._turn: ModelTurn | None = None

    async def deltas(self) -> AsyncIterator[Delta]:
        turn = await self._model._take(self._place)  # noqa: SLF001 - the two are one thing
        words = re.findall(r"\s*\S+\s*$|\s*\S+|\s+$", turn.text)
        try:
            for delta in [Delta("text", word) for word in words] if turn.shown is None else turn.shown:
                yield delta
        except (asyncio.CancelledError, GeneratorExit):
            self._model._give_back(self._place)  # noqa: SLF001
            raise
        self._turn = turn

    def result(self) -> ModelTurn:
        if self._turn is None:
            raise AssertionError("result() was asked for before the deltas were exhausted")
        return self._turn


def _run_id() -> str | None:
    identity = current_run_identity()
    return None if identity is None else identity.run_id


def _turns_taken(transcript: Transcript) -> int:
    """Count the assistant's messages since the last prompt, where the transcript is a list of messages."""
    taken = 0
    for message in reversed(transcript if isinstance(transcript, list) else []):
        role = message.get("role") if isinstance(message, dict) else None
        if role == "user":
            break
        taken += role == "assistant"
    return taken
