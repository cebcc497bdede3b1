"""A local fleet itself: its server, broker, worker, person and time, on one event loop."""

import asyncio
import itertools
from collections.abc import Callable, Mapping
from typing import Any, Final

from turnfleet.client.async_fleet import AsyncRun
from turnfleet_worker.bootstrap import fleet_keys
from turnfleet_worker.people import MILLISECONDS
from turnfleet_worker.registry import Registry
from turnfleet_worker.settings import WorkerSettings
from turnfleet_worker.testing.broker import LocalBroker
from turnfleet_worker.testing.clock import FleetClock
from turnfleet_worker.testing.desk import Desk
from turnfleet_worker.testing.fake import ClockedServer
from turnfleet_worker.testing.person import Person
from turnfleet_worker.testing.tools import ToolFailure, watched
from turnfleet_worker.testing.worker import Ground, LocalWorker

STILL_SECONDS: Final = 0.05
"""A run that did not touch the store for so long (real seconds) waits for something outside."""

BUSY_SECONDS: Final = 2.0
"""The same while a plain tool is at work in its thread: whether it computes or waits cannot be seen."""

TURNS: Final = 200
"""How often the loop must have gone round besides: on a busy machine seconds pass without anybody's doing anything."""

DRAIN_SECONDS: Final = 0.5
"""How long (real seconds) a worker that stops lets its runs go on: to where they can be handed over, if they move."""

_ROUND_UP: Final = 0.002  # seconds: scores are whole milliseconds, and a due moment must have come


class LocalSite:
    """Everything of a local fleet but its clients. Made, opened, used and closed on one event loop."""

    def __init__(
        self,
        registry: Registry,
        *,
        name: str,
        models: Mapping[str, Any],
        person: Person | None,
        settings: WorkerSettings,
        concurrency: int,
        patience: float,
    ) -> None:
        self.clock = FleetClock()
        self.server = ClockedServer(self.clock)
        self.broker = LocalBroker()
        self.keys = fleet_keys(name, settings)
        self.person = person
        self.patience = patience
        """How long (real seconds) is waited when a test does not say."""
        self.failures: dict[str, BaseException] = {}
        """What runs raised, by run id: the latest."""
        self.tool_failures: list[ToolFailure] = []
        """What tools raised, which their models were told."""
        self._models = models
        self._registry = registry
        self._ground = Ground(self.server, self.broker, self.clock, self.keys, settings, concurrency)
        self._numbers = itertools.count(1)
        self._worker: LocalWorker | None = None
        self._desk: Desk | None = None
        self.client = self.server.client()
        self.closed = False
        self.broker.news = self._news

    @property
    def desk(self) -> Desk:
        """Where the person sits."""
        assert self._desk is not None
        return self._desk

    @property
    def working(self) -> bool:
        """Whether there is a worker."""
        return self._worker is not None

    # -- life

    async def open(self, run: Callable[[str], AsyncRun[Any]]) -> None:
        """Start the worker; `run` gives the handle of a run. Raises `KitUnavailable`."""
        await self.server.check()
        self._desk = Desk(self.person, run)
        await self.start_worker()

    async def close(self) -> None:
        """End everything that was started."""
        self.closed = True
        await self.stop_worker(drain_seconds=0.0)
        await self.desk.close()
        await self.client.aclose()

    async def start_worker(self, registry: Registry | None = None) -> None:
        """Start a worker in the place of the one there is, which stops; with another registry, if one is given."""
        await self.stop_worker()
        self._registry = registry or self._registry
        models = {name: model for name, model in self._models.items() if self._registry.has_model(name)}
        self._worker = LocalWorker(
            self._ground,
            self._registry.variant(models=models, function=lambda tool, each: watched(tool, each, self.tool_failures)),
            name=f"local-{next(self._numbers)}",
            on_failure=self.failures.__setitem__,
            on_pause=self.desk.put,
        )
        await self._worker.start()

    async def stop_worker(self, *, drain_seconds: float = DRAIN_SECONDS) -> None:
        """Let the worker go as after a SIGTERM."""
        worker, self._worker = self._worker, None
        if worker is not None:
            await worker.stop(drain_seconds=drain_seconds)

    async def kill_worker(self, *, restart: bool) -> None:
        """Let the worker die with its claims."""
        worker, self._worker = self._worker, None
        if worker is not None:
            await worker.kill()
        if restart:
            await self.start_worker()

    def _news(self) -> None:
        if self._worker is not None:
            self._worker.fill()

    # -- one run

    def holds(self, run_id: str) -> bool:
        """Say whether a message about this run waits, or is under way."""
        return self.broker.holds(run_id) or (self._worker is not None and run_id in self._worker.at_work)

    async def delivered(self, run_id: str) -> None:
        """Wait until no message about this run is under way."""
        tasks = self._worker.tasks_of(run_id) if self._worker else ()
        if tasks:
            await asyncio.wait(tasks)

    async def due_in(self, run_id: str) -> float | None:
        """Give the seconds until a sweep looks at this run by itself, inf for never; None when it has ended."""
        score = await self.client.zscore(self._due(self.keys.shard(run_id)), run_id)
        if score is None:
            return None
        return float(score) / MILLISECONDS - self.clock.unix() + self._ground.settings.sweep_seconds

    def _due(self, shard: int) -> str:
        return f"{self.keys.prefix(shard)}due"

    # -- time

    async def settle(self) -> None:
        """Wait until nothing moves: no message, no run at work, nobody deciding; or what is at work waits itself."""
        while True:
            before = self._moves()
            tasks = self.desk.busy | (self._worker.tasks if self._worker else set())
            if not tasks:
                if self._worker is None or not len(self.broker):
                    return
                await asyncio.sleep(0)
                continue
            if await self._still(tasks, before):
                return

    async def _still(self, tasks: "set[asyncio.Task[None]]", before: tuple[int, int]) -> bool:
        """Wait for a move; say whether there was none."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            done, _ = await asyncio.wait(tasks, timeout=STILL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            for _ in range(TURNS):
                if done or self._moves() != before:
                    return False
                await asyncio.sleep(0)
            if not self._computing or loop.time() - began > BUSY_SECONDS:
                return True

    @property
    def _computing(self) -> bool:
        return self._worker is not None and self._worker.threads_at_work > 0

    def _moves(self) -> tuple[int, int]:
        return (self._worker.calls if self._worker else 0, len(self.broker))

    async def skip(self, seconds: float) -> None:
        """Let so many seconds pass: go from one due moment to the next, and let happen at each what is due then."""
        if not seconds >= 0:
            raise ValueError(f"skip: {seconds!r} seconds: time goes forward only")
        await self.settle()
        ends = self.clock.skipped + seconds
        while True:
            left = ends - self.clock.skipped
            due = await self._next_due()
            self.clock.advance(left if due is None else min(due, left))
            if self._worker is not None:
                await self._worker.make_rounds()
            await self.settle()
            if self.clock.skipped >= ends:
                return

    async def _next_due(self) -> float | None:
        """Give the seconds until somebody must look at a run again, other than those that the worker has."""
        now_ms = self.clock.unix() * MILLISECONDS
        at_work = {run_id.encode() for run_id in self._worker.at_work} if self._worker else set[bytes]()
        scores: list[float] = []
        for shard in range(self.keys.shards):
            due: Any = await self.client.zrangebyscore(self._due(shard), f"({now_ms}", "(+inf", withscores=True)
            scores += [score for run, score in due if run not in at_work]
        return (min(scores) - now_ms) / MILLISECONDS + _ROUND_UP if scores else None
