"""The host of a worker process: its life, from the check of its store to the last run that is handed back.

One kernel, one connection to the store, one heartbeat and one sweep serve all runs of the process. The pool knows
none of this; it hands in messages and gives out slots.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from turnfleet.store.executor import AsyncExecutor
from turnfleet.store.records import Beat, ClaimRef
from turnfleet_worker.announcement import Announcer
from turnfleet_worker.apart import Apart
from turnfleet_worker.claimed_runs import ClaimedRuns
from turnfleet_worker.control import ControlListener
from turnfleet_worker.dispatch import Dispatcher
from turnfleet_worker.heartbeat import Heartbeat
from turnfleet_worker.metrics.endpoint import Endpoint
from turnfleet_worker.misfits import Misfits
from turnfleet_worker.offers import Offers
from turnfleet_worker.persistence import outlast
from turnfleet_worker.pool.ports import Delivery, SendEvent
from turnfleet_worker.preconditions import check_store
from turnfleet_worker.revokes import Revokes
from turnfleet_worker.sweep import Sweeper

HAND_OVER_SECONDS: Final = 4.0
"""How long cancelled runs may take to be handed back once the drain is over."""

HURRIED_SECONDS: Final = 0.8
"""The same when the process was told to go at once."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What the composition root makes for a host (see bootstrap.py)."""

    executor: AsyncExecutor
    dispatcher: Dispatcher
    runs: ClaimedRuns
    offers: Offers
    heartbeat: Heartbeat
    sweeper: Sweeper
    announcer: Announcer
    control: ControlListener
    apart: Apart
    misfits: Misfits
    revokes: Revokes
    allow_eviction: bool
    endpoint: Endpoint | None = None


class WorkerHost:
    """The `Host` that the pool hands its messages to."""

    def __init__(self) -> None:
        self.draining = False
        self.counts: Counter[str] = Counter()
        """What became of messages, by a word for each."""
        self._background: list[asyncio.Task[Any]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self.pool_info: Callable[[], Mapping[str, Any]] = dict
        """What the pool knows of the process, `info()` with it once there is a pool."""
        self._send_event: SendEvent = lambda _kind, _fields: None

    def assemble(self, parts: Parts) -> None:
        """Take the parts; they need the host's methods, so they are made after it."""
        self._parts = parts

    @property
    def in_flight(self) -> int:
        """How many runs this process works on."""
        return self._parts.runs.in_flight

    def info(self) -> Mapping[str, Any]:
        """Say what the process is at, for whoever asks; from any thread."""
        return {
            "runs": self.in_flight,
            "claims-per-second": round(self._parts.runs.claims_per_second, 2),
            "messages": dict(self.counts),
        }

    def see_pool(self, info: Callable[[], Mapping[str, Any]], send_event: SendEvent) -> None:
        """Take what tells of the pool, and of this host with it, and the way to Flower."""
        self.pool_info = info
        self._send_event = send_event

    def send_event(self, kind: str, fields: Mapping[str, object]) -> None:
        """Send a task event about a task of another process to whoever watches, if there is a pool; from any thread."""
        self._send_event(kind, fields)

    async def start(self) -> None:
        """Check the store, announce the worker, and start heartbeat, sweep and control.

        Waits for a store that is away, as Celery waits for its broker. Raises `UnsafeStore`.
        """
        self._loop = asyncio.get_running_loop()
        if self._parts.endpoint is not None:
            self._parts.endpoint.start()
        await outlast(self._enter)
        self._parts.heartbeat.start()
        self._parts.control.start()
        self._spawn(self._parts.announcer.run(), "announce")
        self._spawn(self._parts.sweeper.run(), "sweep")

    async def _enter(self) -> None:
        await check_store(self._parts.executor, allow_eviction=self._parts.allow_eviction)
        await self._parts.announcer.announce()

    def drain(self) -> None:
        """Claim nothing more; running invocations hand over at their next journal point. Safe from any thread."""
        self.draining = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._parts.apart.close)

    @property
    def handing_over(self) -> bool:
        """Whether runs are to hand over at their next journal point: the process ends, or a suspect must be alone."""
        return self.draining or self._parts.apart.clearing

    async def stop(self, *, drain_seconds: float) -> None:
        """Hand back what still runs after `drain_seconds`, and close."""
        self.draining = True
        self._parts.apart.close()
        if drain_seconds > 0:
            await self._parts.runs.until_idle(drain_seconds)
        self._parts.runs.hand_over()
        await self._parts.runs.until_idle(HAND_OVER_SECONDS if drain_seconds > 0 else HURRIED_SECONDS)
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self._parts.misfits.stop()
        await self._parts.control.stop()
        await self._parts.announcer.retract()
        self._parts.heartbeat.stop()
        self._parts.offers.close()
        if self._parts.endpoint is not None:
            await asyncio.to_thread(self._parts.endpoint.stop)
        await self._parts.executor.aclose()

    async def make_rounds(self) -> None:
        """Beat, announce and sweep now, not when their turn comes: so the testing kit lets time pass."""
        self._parts.heartbeat.beat_once()
        await self._parts.announcer.announce()
        await self._parts.sweeper.sweep_once()

    def _spawn(self, work: Awaitable[Any], name: str) -> None:
        task = asyncio.ensure_future(work)
        task.set_name(f"turnfleet-{name}")
        self._background = [each for each in self._background if not each.done()]
        self._background.append(task)

    # -- what comes in from outside

    async def handle(self, envelope: object, delivery: Delivery) -> dict[str, object]:
        """Look at the run that a message names, and run it if it is there to be run (DESIGN 1)."""
        return await self._parts.dispatcher.handle(envelope, delivery)

    async def revoke(self, task_id: str) -> None:
        """Take a revoke of a task, wherever it is: cancel its run, if it is one's."""
        await self._parts.revokes.revoke(task_id)

    def heard_beat(self, ref: ClaimRef, beat: Beat) -> None:
        """Take what a heartbeat learned; called from its thread."""
        if beat.alive and beat.cancel is None and not beat.expired:
            return
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._parts.runs.heard_beat, ref, beat)
