"""The fleet that is measured: a model that answers at once, so that what is left is the fleet's own cost.

`celery -A turnfleet_worker.bench.fleet worker`; the environment names the fleet. The app is made when it is asked for.
"""

import functools
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from celery import Celery

from turnfleet_kernel import Delta, ModelTurn, PlanSpec, ToolRequest
from turnfleet_worker import Registry, create_app

MODEL: Final = "bench"
TOOL: Final = "approved"
PLAIN: Final = PlanSpec(name="bench", model=MODEL)
"""One model turn; the prompt says of how many pieces."""

ASKING: Final = PlanSpec(name="bench-asking", model=MODEL, tools=(TOOL,))
"""One call that waits for a person, then the answer."""

PIECE: Final = "word "


class InstantModel:
    """Asks for its tool once, if the plan has one, and answers with as many pieces as the prompt says."""

    async def invoke(self, transcript: Sequence[Mapping[str, Any]]) -> ModelTurn:
        """Give the turn."""
        return _turn(transcript)

    def stream(self, transcript: Sequence[Mapping[str, Any]]) -> "InstantRound":
        """Give the turn, piece by piece."""
        return InstantRound(_turn(transcript))


class InstantRound:
    """A turn as it streams: as fast as it is taken."""

    def __init__(self, turn: ModelTurn) -> None:
        self._turn = turn

    async def deltas(self) -> AsyncIterator[Delta]:
        """Give the pieces."""
        for _ in range(len(self._turn.text) // len(PIECE)):
            yield Delta("text", PIECE)

    def result(self) -> ModelTurn:
        """Give the whole turn."""
        return self._turn


def _turn(transcript: Sequence[Mapping[str, Any]]) -> ModelTurn:
    prompt = str(transcript[0]["content"])
    if prompt == TOOL and len(transcript) == 1:
        return ModelTurn("", tool_requests=(ToolRequest("c1", TOOL, {}),))
    return ModelTurn(PIECE * (int(prompt) if prompt.isdecimal() else 1))


def build_registry() -> Registry:
    """Return the registry."""
    registry = Registry()
    registry.model(MODEL, InstantModel())

    @registry.tool(name=TOOL, approval=True)
    async def approved() -> str:
        """Do nothing, once a person has said yes."""
        return "done"

    return registry


@functools.cache
def the_app() -> Celery:
    """Return this process's app."""
    return create_app(
        build_registry(),
        os.environ["TURNFLEET_REDIS_URL"],
        name=os.environ["TURNFLEET_NAME"],
        broker_url=os.environ.get("TURNFLEET_BROKER_URL"),
        key_prefix=os.environ.get("TURNFLEET_KEY_PREFIX", ""),
    )


def __getattr__(name: str) -> Celery:
    if name in {"app", "celery"}:
        return the_app()
    raise AttributeError(name)
