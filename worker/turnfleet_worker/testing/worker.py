"""The worker of a local fleet: the real host, and in the place of Celery's pool a task for each message."""

import asyncio
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from celery.exceptions import Ignore, Reject

from turnfleet.errors import ClaimLost, FleetUnavailable, TurnfleetError
from turnfleet.store import Command, Keys
from turnfleet.store.executor import AsyncExecutor, SyncExecutor
from turnfleet.wire.broker import default_queue
from turnfleet_worker.bootstrap import Surroundings, make_host
from turnfleet_worker.pool.ports import Delivery
from turnfleet_worker.registry import Registry
from turnfleet_worker.settings import WorkerSettings
from turnfleet_worker.testing.broker import Letter, LocalBroker, LocalOffers
from turnfleet_worker.testing.clock import FleetClock
from turnfleet_worker.testing.fake import ClockedServer

T = TypeVar("T")

_log = logging.getLogger(__name__)

CLOSING_SECONDS: Final = 1.0
"""How long coroutines may take to go once they were cancelled for the last time."""


class SeverableExecutor(AsyncExecutor):
    """A worker's way to its store, which can be cut."""

    severed = False
    calls = 0
    """How often the worker asked for something: what tells a run that moves from one that waits."""

    async def execute(self, command: Command[T]) -> T:
        """Execute, until it is severed; then raise what makes the worker let go without another word."""
        if self.severed:
            raise _severed(command)
        self.calls += 1
        return await super().execute(command)


class SeverableBeats(SyncExecutor):
    """The way of a worker's heartbeat, which is cut with the other."""

    severed = False

    def execute(self, command: Command[T]) -> T:
        """Execute, until it is severed."""
        if self.severed:
            raise _severed(command)
        return super().execute(command)


def _severed(command: Command[T]) -> TurnfleetError:
    if command.run_id is None:
        return FleetUnavailable("this worker of the local fleet was killed")
    return ClaimLost(command.run_id, "")


@dataclass(frozen=True, slots=True)
class Ground:
    """What every worker of a local fleet stands on, one after another."""

    server: ClockedServer
    broker: LocalBroker
    clock: FleetClock
    keys: Keys
    settings: WorkerSettings
    concurrency: int


class LocalWorker:
    """One worker. `on_failure` is told what a run raised, `on_pause` which run waits for people."""

    def __init__(
        self,
        ground: Ground,
        registry: Registry,
        *,
        name: str,
        on_failure: Callable[[str, BaseException], None],
        on_pause: Callable[[str], None],
    ) -> None:
        self._ground = ground
        self._registry = registry
        self._name = name
        self._on_failure = on_failure
        self._on_pause = on_pause
        self._client = ground.server.client()
        self._beating = ground.server.sync_client()
        self._executor = SeverableExecutor(self._client)
        self._beats = SeverableBeats(self._beating)
        self._host = make_host(
            registry,
            ground.keys,
            ground.settings,
            Surroundings(
                worker=name,
                executor=self._executor,
                beats=self._beats,
                offers=LocalOffers(ground.broker, ground.keys.fleet),
                queues=lambda: [default_queue(ground.keys.fleet)],
                clock=ground.clock,
            ),
        )
        self._tasks: dict[asyncio.Task[None], Letter] = {}
        self._consuming = False

    @property
    def at_work(self) -> set[str]:
        """The runs whose messages are under way."""
        return {letter.run_id for letter in self._tasks.values()}

    @property
    def tasks(self) -> "set[asyncio.Task[None]]":
        """The messages under way."""
        return set(self._tasks)

    def tasks_of(self, run_id: str) -> "set[asyncio.Task[None]]":
        """Give the messages under way about one run."""
        return {task for task, letter in self._tasks.items() if letter.run_id == run_id}

    @property
    def calls(self) -> int:
        """How often the store was asked for something."""
        return self._executor.calls

    @property
    def threads_at_work(self) -> int:
        """How many threads are busy with plain tools."""
        return self._registry.threads_at_work

    async def start(self) -> None:
        """Start the host, and take messages from now on."""
        await self._host.start()
        self._consuming = True
        self.fill()

    def fill(self) -> None:
        """Take messages while there are slots."""
        while self._consuming and len(self._tasks) < self._ground.concurrency:
            letter = self._ground.broker.take()
            if letter is None:
                return
            task = asyncio.get_running_loop().create_task(self._handle(letter), name=f"message:{letter.task_id}")
            self._tasks[task] = letter
            task.add_done_callback(self._done)

    async def make_rounds(self) -> None:
        """Beat, announce and sweep now."""
        await self._host.make_rounds()

    async def stop(self, *, drain_seconds: float) -> None:
        """Go as after a SIGTERM: runs are handed back, messages that were not accepted return to the broker."""
        self._consuming = False
        self._host.drain()
        await self._host.stop(drain_seconds=drain_seconds)
        await self._close()

    async def kill(self) -> None:
        """Be gone at once: nothing more is said to the store, claims stay, messages not accepted return."""
        self._consuming = False
        self._executor.severed = self._beats.severed = True
        for task in self._tasks:
            task.cancel()
        self._host.drain()
        await self._host.stop(drain_seconds=0.0)
        await self._close()

    async def _close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait([*self._tasks], timeout=CLOSING_SECONDS)
        await self._client.aclose()
        self._beating.close()
        self._registry.close()

    async def _handle(self, letter: Letter) -> None:
        """Let the host see a message, and do with it what the pool would do."""
        delivery = Delivery(
            task_id=letter.task_id, root_id=letter.run_id, redelivered=letter.redelivered, hostname=self._name
        )
        try:
            shown = await self._host.handle(json.loads(letter.body), delivery)
        except Ignore:
            return
        except Reject as rejected:
            if getattr(rejected, "requeue", False) and not delivery.accepted:
                self._ground.broker.give_back(letter)
        except asyncio.CancelledError:
            if not delivery.accepted:
                self._ground.broker.give_back(letter)
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - what a run raised is the run's end, never the loop's
            self._on_failure(letter.run_id, error)
        else:
            if shown.get("state") == "paused":
                self._on_pause(letter.run_id)

    def _done(self, task: "asyncio.Task[None]") -> None:
        del self._tasks[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a message was not handled", exc_info=error)
        if self._consuming:
            self.fill()
