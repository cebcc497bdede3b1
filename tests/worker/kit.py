"""Workers that die at a point of the test's choosing, whole hosts in this process, and what is known of a run."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Protocol, Self, TypeVar

from support.waiting import LIMIT_SECONDS
from worker.conftest import Shop

from turnfleet.store import Command, commands
from turnfleet.store.executor import AsyncExecutor
from turnfleet.store.records import Claim
from turnfleet.wire.envelope import Envelope
from turnfleet_worker import WorkerSettings, create_app
from turnfleet_worker.ending import Left
from turnfleet_worker.host import WorkerHost
from turnfleet_worker.pool.ports import Delivery

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

    async def killed(self, task: "asyncio.Task[Left]") -> bool:
        """Wait until it is dead, or the invocation that it works for is over; tell whether it came to be killed."""
        died = asyncio.ensure_future(self.dead.wait())
        await asyncio.wait({task, died}, return_when=asyncio.FIRST_COMPLETED)
        died.cancel()
        return not task.done()


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


class Held(Protocol):
    """Tools that tell when a call has begun, and hold it as long as they are told to."""

    begun: asyncio.Event
    hold: asyncio.Event | None


async def cut_inside_a_call(worker: Shop, redis_url: str, held: Held) -> None:
    """Kill a worker while a held call is at work: the start is journaled, the receipt is not."""
    held.hold = asyncio.Event()
    claim = await worker.claim()
    async with dying_worker(worker, redis_url, claim, writes=1_000) as (dying, task):
        await held.begun.wait()
        dying.left = 0
        await worker.lose(claim)
        held.hold.set()
        held.hold = None
        await dying.dead.wait()
    assert (await task).state == "lost"


async def outcome(shop: Shop, run_id: str) -> dict[str, Any]:
    """Give what a run's outcome says, without what differs from run to run."""
    seen = (await shop.executor.execute(commands.outcome(shop.keys, run_id))).outcome
    assert seen is not None
    for each in seen["tool_outcomes"]:
        each.pop("duration_ms")
    return {name: value for name, value in seen.items() if name not in {"run_id", "duration_ms"}}


class HostProcess:
    """All of a worker process but Celery: its host with heartbeat, sweep and control, started on this loop."""

    def __init__(self, shop: Shop, redis_url: str, **settings: Any) -> None:
        self.keys = shop.keys
        quick: dict[str, Any] = {
            "lease_seconds": 30,
            "heartbeat_seconds": 0.2,
            "sweep_seconds": 0.2,
            "reoffer_after_seconds": 30,
            "drain_seconds": 5,
        }
        app: Any = create_app(
            shop.registry, redis_url, name=shop.keys.fleet, settings=WorkerSettings(**quick | settings)
        )
        self.host: WorkerHost = app.host_factory(app)
        self._executor = shop.executor
        self._running = False

    async def __aenter__(self) -> Self:
        """Start."""
        await self.host.start()
        self._running = True
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop."""
        await self.stop()

    async def stop(self) -> None:
        """Stop as a second signal would: at once."""
        if self._running:
            self._running = False
            await self.host.stop(drain_seconds=0)

    async def message(self, run_id: str, delivery: Delivery | None = None) -> dict[str, object]:
        """Let a message about a run arrive."""
        status = await self._executor.execute(commands.status(self.keys, run_id))
        envelope = Envelope(
            fleet=self.keys.fleet, run_id=run_id, recorded=True, plan_id=status.plan_id, digest=status.digest
        )
        return await self.host.handle(envelope.to_json(), delivery or a_delivery(run_id))


def a_delivery(run_id: str) -> Delivery:
    """Give a message's delivery."""
    return Delivery(task_id=run_id, root_id=run_id, redelivered=False, hostname="here")


async def until(holds: Callable[[], Any], seconds: float = LIMIT_SECONDS) -> None:
    """Wait until a condition (plain or async) holds. Raises AssertionError after so many seconds."""
    loop = asyncio.get_running_loop()
    limit = loop.time() + seconds
    while True:
        value = holds()
        if await value if inspect.isawaitable(value) else value:
            return
        assert loop.time() < limit, f"it did not come to hold within {seconds:g} s"
        await asyncio.sleep(0.01)
