"""A fleet whose model does what the prompt spells out, and whose tools leave marks that a test can read.

The prompt is a JSON list of steps, one a model round: a string is the round's text, a list is its tool calls as
`{"name": ..., "arguments": {...}}`, and `{"fail": ...}` makes the model raise.

Marks go to a Redis list of the test's own server, outside every fleet's keys: `marks:<fleet>` gets
`model:<run>:<round>` for each call of the model and `<tool>:<run>:<call id>` for each effect.
"""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import redis
import redis.asyncio

from turnfleet_kernel import Delta, ModelTurn, ToolRequest, UsageDelta, current_run_identity
from turnfleet_worker import Registry, Reject, ToolContext, WorkerSettings, create_app

URL = os.environ["TURNFLEET_REDIS_URL"]
NAME = os.environ["TURNFLEET_NAME"]
REOFFER = float(os.environ.get("PLANNED_REOFFER", "4"))  # seconds until the sweep takes a message for lost
LEASE = float(os.environ.get("LEASE_SECONDS", "30"))  # longer than any machine stands still; short where one is to end
registry = Registry()


async def mark(text: str) -> None:
    """Leave a mark for the test."""
    async with redis.asyncio.Redis.from_url(URL) as client:
        await client.rpush(f"marks:{NAME}", text)


class PlannedModel:
    """Plays the steps that the prompt spells out; has no state of its own."""

    async def invoke(self, transcript: Sequence[dict[str, Any]]) -> ModelTurn:
        """Return the turn of this round."""
        prompt = next(message["content"] for message in transcript if message["role"] == "user")
        number = sum(1 for message in transcript if message["role"] == "assistant")
        await mark(f"model:{_run()}:{number}")
        steps = json.loads(prompt)
        step = steps[number]
        usage = UsageDelta(input_tokens=10, output_tokens=2, requests=1)
        if isinstance(step, dict):
            raise RuntimeError(step["fail"])  # noqa: TRY004 - a provider's failure, not a wrong type
        if isinstance(step, str):
            return ModelTurn(text=step, usage=usage, stop_reason="end")
        calls = tuple(
            ToolRequest(call.get("id", f"call-{number}-{place}"), call["name"], call.get("arguments", {}))
            for place, call in enumerate(step)
        )
        return ModelTurn(text="", usage=usage, stop_reason="tool_calls", tool_requests=calls)

    def stream(self, transcript: Sequence[dict[str, Any]]) -> "PlannedRound":
        """Return the same turn, to be streamed word by word."""
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
        words = self._turn.text.split(" ")
        for place, word in enumerate(words if self._turn.text else ()):
            yield Delta("text", word if place == len(words) - 1 else f"{word} ")

    def result(self) -> ModelTurn:
        """Give the whole turn."""
        return self._turn


registry.model("planned", PlannedModel())


def _run() -> str:
    identity = current_run_identity()
    return identity.run_id if identity else "?"


@registry.tool
async def note(context: ToolContext, text: str) -> str:
    """Leave a mark."""
    await mark(f"note:{context.run_id}:{context.call_id}")
    return text


@registry.tool
async def wait_for(context: ToolContext, key: str) -> str:
    """Wait until the test pushes something onto this Redis list."""
    await mark(f"wait_for:{context.run_id}:{context.call_id}")
    async with redis.asyncio.Redis.from_url(URL, socket_timeout=None) as client:
        # Moved onto itself: every waiter sees it, none takes it away.
        await client.blmove(key, key, 60, "LEFT", "LEFT")
    return key


@registry.tool(idempotent=True)
async def dawdle(seconds: float) -> str:
    """Take some time."""
    await asyncio.sleep(seconds)
    return "at last"


@registry.tool
async def block(context: ToolContext, key: str) -> str:
    """Block the worker's event loop for a while, and until the test lets it go, as no tool should."""
    await mark(f"block:{context.run_id}:{context.call_id}")
    time.sleep(1.5)  # noqa: ASYNC251 - it is what this tool is for
    with redis.Redis.from_url(URL, socket_timeout=None) as client:
        client.blmove(key, key, 60, "LEFT", "LEFT")
    return "sorry"


@registry.tool(approval=lambda arguments: arguments["amount"] > 50, roles=("finance",))
async def refund(context: ToolContext, order_id: str, amount: float) -> str:
    """Refund an order; above 50, a person of finance decides."""
    await mark(f"refund:{context.run_id}:{context.call_id}:{amount:g}")
    return f"refunded {amount:g} for {order_id}"


@registry.tool(approval=True, expires_in=0.3, on_expiry=Reject("nobody decided"))
async def hasty(context: ToolContext) -> str:
    """Wait only a moment for a person; then it is rejected."""
    await mark(f"hasty:{context.run_id}:{context.call_id}")
    return "done"


@registry.tool(approval=True, expires_in=0.3)
async def fleeting(context: ToolContext) -> str:
    """Wait only a moment for a person; then the run expires."""
    await mark(f"fleeting:{context.run_id}:{context.call_id}")
    return "done"


@registry.tool
def broken() -> str:
    """Fail always; the model sees the error."""
    raise RuntimeError("this tool is broken")


settings = WorkerSettings(
    lease_seconds=LEASE,
    heartbeat_seconds=0.5,
    sweep_seconds=0.5,
    reoffer_after_seconds=REOFFER,
    drain_seconds=5,
    show_content="PLANNED_SHOW_CONTENT" in os.environ,
)
app = create_app(registry, URL, name=NAME, settings=settings)
