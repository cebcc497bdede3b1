"""Workers that die at a point of the test's choosing, and what is then known of the run."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeVar

from worker.conftest import Shop

from turnfleet.store import Command, commands
from turnfleet.store.executor import AsyncExecutor
from turnfleet.store.records import Claim
from turnfleet_worker.invocation import Left

T = TypeVar("T")
WRITES = {"step", "pause", "finish", "release"}


class DyingExecutor(AsyncExecutor):
    """The connection of a worker that is killed after so many writes: from then on it says nothing more."""

    def __init__(self, url: str, writes: int) -> None:
        super().__init__(url)
        self.left = writes
        self.dead = asyncio.Event()
        self.awake = asyncio.Event()

    async def execute(self, command: Command[T]) -> T:
        """Execute, until it is dead."""
        if command.script in WRITES:
            if self.left == 0:
                self.dead.set()
                await self.awake.wait()
            else:
                self.left -= 1
        return await super().execute(command)


@asynccontextmanager
async def dying_worker(
    shop: Shop, redis_url: str, claim: Claim, writes: int
) -> AsyncIterator[tuple[DyingExecutor, "asyncio.Task[Left]"]]:
    """Let a worker run that dies after so many writes. In the end it wakes up: its late writes come to nothing."""
    executor = DyingExecutor(redis_url, writes)
    task = asyncio.ensure_future(replace(shop, executor=executor).invocation(claim).run())
    try:
        yield executor, task
    finally:
        executor.awake.set()
        await asyncio.wait({task})
        await executor.aclose()


async def outcome(shop: Shop, run_id: str) -> dict[str, Any]:
    """Give what a run's outcome says, without what differs from run to run."""
    seen = (await shop.executor.execute(commands.outcome(shop.keys, run_id))).outcome
    assert seen is not None
    for each in seen["tool_outcomes"]:
        each.pop("duration_ms")
    return {name: value for name, value in seen.items() if name not in {"run_id", "duration_ms"}}
