"""The fleet whose runs are golden files. What it can do must stay what it was: files of old releases run on it."""

import asyncio
from collections.abc import Callable
from typing import Any

from support.spelled import Spelled

from turnfleet_kernel import Phase, PlanSpec, Stage, StageResult
from turnfleet_worker import Registry, ToolContext

ANSWER = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}
CHILD = PlanSpec(name="child", model="spelled", tools=("pay", "look", "stay"), instructions="Help.")


def golden_registry(*, hold: bool = False, down: bool = False, held: Callable[[], None] = lambda: None) -> Registry:
    """Give the fleet's registry.

    `hold`: what can wait (the tool `stay`, the model `slow`) waits for ever, and says so by calling `held`. `down`: the
    model `flaky` fails.
    """

    async def wait() -> None:
        if hold:
            held()
            await asyncio.Event().wait()

    def fail(_number: int) -> None:
        if down:
            raise ConnectionError("the provider is down")

    registry = Registry()
    registry.model("spelled", Spelled())
    registry.model("flaky", Spelled(fail))
    registry.model("slow", _Slow(wait))

    @registry.tool(approval=True, roles=("finance",))
    async def pay(amount: int) -> dict[str, Any]:
        """Pay."""
        return {"paid": amount}

    @registry.tool(idempotent=True)
    async def look(what: str, context: ToolContext) -> str:
        """Look at something, and report."""
        await context.progress({"seen": what})
        return f"saw {what}"

    @registry.tool(idempotent=True)
    async def stay() -> str:
        """Take long; calling it again is calling it once."""
        await wait()
        return "stayed"

    @registry.tool
    async def charge(amount: int) -> str:
        """Charge; nobody knows afterwards whether it happened."""
        await wait()
        return f"charged {amount}"

    registry.delegate("child", CHILD)
    registry.stage("choose", lambda settings: Stage("choose", Phase.RESOLVE, lambda _: StageResult(publish=settings)))
    registry.stage("shorten", lambda _settings: Stage("shorten", Phase.POST_TOOL, _shorten))
    return registry


def _shorten(frame: Any) -> StageResult:
    """Leave out what tools of earlier rounds gave."""
    *earlier, said, heard = frame.transcript
    short = [{**each, "content": "..."} if each["role"] == "tool" else each for each in earlier]
    return StageResult(transcript=[*short, said, heard])


class _Slow(Spelled):
    """Says half of its first answer before it waits."""

    def __init__(self, wait: Callable[[], Any]) -> None:
        super().__init__()
        self._wait = wait

    def stream(self, transcript: Any) -> Any:
        """Give the pieces, with a pause behind the first."""
        inner, wait = super().stream(transcript), self._wait

        class Round:
            async def deltas(self) -> Any:
                async for delta in inner.deltas():
                    yield delta
                    await wait()

            def result(self) -> Any:
                return inner.result()

        return Round()
