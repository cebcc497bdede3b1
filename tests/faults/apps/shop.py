"""A fleet whose tools note every effect in a file of the test's, so that a Redis at fault cannot hide what was done.

The prompt is a JSON list of steps, one a model round: a text, or a list of tool calls (`fleet.conftest.steps`, `call`).
A mark is one line, `<kind>:<run>:<call id or round>`.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from turnfleet_kernel import Delta, ModelTurn, ToolRequest, UsageDelta, current_run_identity
from turnfleet_worker import Registry, ToolContext, WorkerSettings, create_app

registry = Registry()


def mark(text: str) -> None:
    """Append one line, whole: what several processes append at once does not mix."""
    file = os.open(os.environ["MARKS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, f"{text}\n".encode())
    finally:
        os.close(file)


class PlannedModel:
    """Plays the steps that the prompt spells out."""

    async def invoke(self, transcript: Sequence[dict[str, Any]]) -> ModelTurn:
        """Return the turn of this round."""
        prompt = next(message["content"] for message in transcript if message["role"] == "user")
        number = sum(1 for message in transcript if message["role"] == "assistant")
        identity = current_run_identity()
        mark(f"model:{identity.run_id if identity else '?'}:{number}")
        step = json.loads(prompt)[number]
        usage = UsageDelta(input_tokens=10, output_tokens=2, requests=1)
        if isinstance(step, str):
            return ModelTurn(step, usage, "end")
        calls = tuple(
            ToolRequest(f"call-{number}-{place}", each["name"], each["arguments"]) for place, each in enumerate(step)
        )
        return ModelTurn("", usage, "tool_calls", calls)

    def stream(self, transcript: Sequence[dict[str, Any]]) -> "PlannedRound":
        """Return the same turn, streamed word by word."""
        return PlannedRound(self, transcript)


class PlannedRound:
    """One streamed turn."""

    def __init__(self, model: PlannedModel, transcript: Sequence[dict[str, Any]]) -> None:
        """Keep what to ask."""
        self._model = model
        self._transcript = transcript
        self._turn = ModelTurn()

    async def deltas(self) -> AsyncIterator[Delta]:
        """Give the text in words."""
        self._turn = await self._model.invoke(self._transcript)
        for word in self._turn.text.split():
            yield Delta("text", f"{word} ")

    def result(self) -> ModelTurn:
        """Give the whole turn."""
        return self._turn


registry.model("planned", PlannedModel())


@registry.tool
async def note(context: ToolContext, text: str) -> str:
    """Have an effect that must not be repeated."""
    mark(f"note:{context.run_id}:{context.call_id}")
    return text


@registry.tool
async def nap(context: ToolContext, seconds: float) -> str:
    """Have an effect that takes its time, and must not be repeated either."""
    mark(f"nap:{context.run_id}:{context.call_id}")
    await asyncio.sleep(seconds)
    return "rested"


@registry.tool(approval=True)
async def pay(context: ToolContext) -> str:
    """Have an effect that a person decides about."""
    mark(f"pay:{context.run_id}:{context.call_id}")
    return "paid"


@registry.tool
async def wait_for(context: ToolContext, path: str) -> str:
    """Wait until the test makes this file."""
    mark(f"wait_for:{context.run_id}:{context.call_id}")
    while not Path(path).exists():  # noqa: ASYNC110, ASYNC240 - the test is another process: a file is what both see
        await asyncio.sleep(0.05)
    return "found"


settings = WorkerSettings(
    lease_seconds=3,
    heartbeat_seconds=0.5,
    sweep_seconds=0.5,
    reoffer_after_seconds=float(os.environ.get("REOFFER", "4")),
    visibility_seconds=3,
    drain_seconds=5,
)
app = create_app(
    registry,
    os.environ["TURNFLEET_REDIS_URL"],
    name=os.environ["TURNFLEET_NAME"],
    broker_url=os.environ.get("TURNFLEET_BROKER_URL"),
    settings=settings,
)
