"""A fleet whose model does what the prompt says: `pay 30`, `ask colour`, `fail`, or just talk."""

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from celery import Celery

from turnfleet_kernel.contracts.values import Delta, ModelTurn, ToolRequest, UsageDelta
from turnfleet_worker import Registry, create_app

Message = Mapping[str, Any]


class ObedientModel:
    """Calls what the last user message names, once; then says done."""

    async def invoke(self, transcript: Sequence[Message]) -> ModelTurn:
        """Return the next turn."""
        asked = next(message["content"] for message in reversed(transcript) if message["role"] == "user")
        word, _, rest = str(asked).partition(" ")
        if word == "fail":
            raise RuntimeError("the model has a bad day")
        if any(message["role"] == "tool" for message in transcript):
            said = [str(message["content"]) for message in transcript if message["role"] == "tool"]
            return ModelTurn(text=f"done: {', '.join(said)}", usage=UsageDelta(1, 1, 1))
        if word == "pay":
            calls = tuple(ToolRequest(f"pay-{each}", "pay", {"amount": int(each)}) for each in rest.split())
            return ModelTurn(text="paying", usage=UsageDelta(1, 1, 1), tool_requests=calls)
        if word == "ask":
            question = {"question": f"which {rest}?", "schema": {"type": "string"}}
            call = ToolRequest("ask-1", "ask", question)
            return ModelTurn(text="asking", usage=UsageDelta(1, 1, 1), tool_requests=(call,))
        return ModelTurn(text=f"you said \x1b[31m{asked}", usage=UsageDelta(1, 1, 1))

    def stream(self, transcript: Sequence[Message]) -> "Whole":
        """Return the next turn, in one piece."""
        return Whole(self, transcript)


class Whole:
    """A turn that comes in one piece."""

    def __init__(self, model: ObedientModel, transcript: Sequence[Message]) -> None:
        self._model = model
        self._transcript = transcript
        self._turn = ModelTurn()

    async def deltas(self) -> AsyncIterator[Delta]:
        """Yield the text."""
        self._turn = await self._model.invoke(self._transcript)
        yield Delta("text", self._turn.text)

    def result(self) -> ModelTurn:
        """Return the turn."""
        return self._turn


registry = Registry()
registry.model("obedient", ObedientModel())


@registry.tool(approval=lambda arguments: arguments["amount"] > 10, roles=("finance",))
def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


def build() -> Celery:
    """Return the app of the fleet that the environment names."""
    return create_app(registry, os.environ["TURNFLEET_REDIS_URL"], name=os.environ["TURNFLEET_NAME"])


if "TURNFLEET_REDIS_URL" in os.environ:
    app = build()
