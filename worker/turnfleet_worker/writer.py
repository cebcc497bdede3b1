"""The one writer of a run: journal entries and events leave in the order in which they were made.

At most one `step` of a run is in flight. What is made meanwhile leaves together with the next (group
commit), so a slow store makes batches larger and never memory: `room()` holds a maker of events back
(EVT-8), and `effect()` is the barrier that stands before a tool's call.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from turnfleet.errors import ClaimLost
from turnfleet.store import Command, Keys
from turnfleet.store.commands import step
from turnfleet.store.executor import AsyncExecutor
from turnfleet.store.records import ClaimRef
from turnfleet_kernel.errors import TurnfleetError
from turnfleet_worker.metrics import NO_METER, Meter
from turnfleet_worker.persistence import persist

Entry = dict[str, Any]
T = TypeVar("T")

MOST_WAITING_EVENTS: Final = 256
END_SECONDS: Final = 0.05
_log = logging.getLogger(__name__)


class CancelRequested(Exception):
    """The run's cancel was recorded before this effect started, so the effect must not start."""

    def __init__(self, run_id: str, reason: str) -> None:
        """Keep the reason that the person gave."""
        super().__init__(f"run {run_id} was cancelled: {reason}")
        self.reason = reason


class RunWriter:
    """Writes one claimed run's journal and events; lives as long as the claim is worked on."""

    def __init__(
        self,
        executor: AsyncExecutor,
        keys: Keys,
        claim: ClaimRef,
        *,
        seq: int,
        on_cancel: Callable[[str], None],
        on_lost: Callable[[TurnfleetError], None],
        on_progress: Callable[[], None] = lambda: None,
        meter: Meter = NO_METER,
    ) -> None:
        self.meter = meter
        self._executor = executor
        self._keys = keys
        self._claim = claim
        self._seq = seq
        self._on_cancel = on_cancel
        self._on_lost = on_lost
        self._on_progress = on_progress
        self._entries: list[Entry] = []
        self._events: list[Entry] = []
        self._starts: list[tuple[Entry, asyncio.Future[None]]] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._pump: asyncio.Task[None] | None = None
        self._held = False
        self._expecting: asyncio.TimerHandle | None = None
        self._lost: TurnfleetError | None = None
        self._flown = asyncio.Event()
        self._oldest_event = 0.0

    def entry(self, entry: Entry) -> None:
        """Append a journal entry; it is durable once a later `flushed()` returns."""
        self._entries.append(entry)
        self._go()

    def event(self, event: Entry) -> None:
        """Append an event in its JSON form; it is in the log and published with the next step."""
        if not self._events:
            self._oldest_event = time.monotonic()
        self._events.append(event)
        self._go()

    async def room(self) -> None:
        """Wait until fewer than `MOST_WAITING_EVENTS` events wait. Raises what ended the writing (`ClaimLost`)."""
        while len(self._events) >= MOST_WAITING_EVENTS:
            self._check()
            self._flown.clear()
            await self._flown.wait()
        self._check()

    async def flushed(self) -> None:
        """Wait until everything appended so far is durable. Raises what ended the writing (`ClaimLost`)."""
        self._check()
        if self._idle():
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self._go()
        await future

    async def effect(self, start: Entry) -> None:
        """Journal that an effect starts, and wait for it: only then may the effect be made.

        Raises CancelRequested when a cancel came first (nothing starts after an acknowledged cancel), and
        ClaimLost when another worker has the run.
        """
        self._check()
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._entries.append(start)
        self._starts.append((start, future))
        self._go()
        await future

    def expect_end(self) -> None:
        """Keep what waits for `conclude`, so that it leaves with the end: the run has made its last event.

        For `END_SECONDS` only: work that the run left in the background may keep the end from coming at once.
        """
        self._held = True
        self._expecting = asyncio.get_running_loop().call_later(END_SECONDS, self._expect_no_more)

    def _expect_no_more(self) -> None:
        self._held, self._expecting = False, None
        if not self._idle():
            self._go()

    async def conclude(self, build: Callable[[int, Sequence[Entry], Sequence[Entry]], Command[T]]) -> T:
        """Send the last command of the claim with whatever still waits. `build` gets (seq, entries, events).

        Effects that wait for their start to be noted are not made any more, and leave no trace.
        """
        self._held = True
        if self._expecting is not None:
            self._expecting.cancel()
            self._expecting = None
        while self._pump is not None:
            await asyncio.wait({self._pump})
        self._check()
        oldest = self._oldest_event
        entries, events = self._take()
        entries = _without(entries, self._starts)
        self._seq += 1
        try:
            answer = await persist(self._executor, build(self._seq, entries, events))
        except TurnfleetError as error:
            self._lose(error)
            raise
        self._acknowledged(events, oldest)
        return answer

    async def abandon(self) -> None:
        """Stop writing: what waits is dropped, its waiters are cancelled."""
        if self._pump is not None:
            self._pump.cancel()
            await asyncio.wait({self._pump})
        self._settle(None)

    def _idle(self) -> bool:
        return self._pump is None and not self._entries and not self._events

    def _check(self) -> None:
        if self._lost is not None:
            raise self._lost

    def _go(self) -> None:
        if self._pump is None and self._lost is None and not self._held:
            self._pump = asyncio.get_running_loop().create_task(self._run(), name=f"writer:{self._claim.run_id}")

    async def _run(self) -> None:
        try:
            # What is made in the same turn of the loop leaves together; an end that follows at once takes it along.
            await asyncio.sleep(0)
            # A waiter that came while the last of it was on its way is told by one more round, which sends nothing.
            while not self._held and (self._entries or self._events or self._waiting):
                await self._fly()
        except TurnfleetError as error:
            self._lose(error)
        finally:
            self._pump = None
            self._flown.set()

    async def _fly(self) -> None:
        starts, self._starts = self._starts, []
        waiting, self._waiting = self._waiting, []
        oldest = self._oldest_event
        entries, events = self._take()
        try:
            if entries or events:
                self._seq += 1
                await self._step(entries, events, starts)
                self._acknowledged(events, oldest)
        except BaseException:
            self._starts, self._waiting = starts + self._starts, waiting + self._waiting
            raise
        _resolve(waiting)
        self._flown.set()

    async def _step(
        self, entries: Sequence[Entry], events: Sequence[Entry], starts: Sequence[tuple[Entry, asyncio.Future[None]]]
    ) -> None:
        ack = await persist(
            self._executor,
            step(self._keys, self._claim, seq=self._seq, entries=entries, events=events, starts_effect=bool(starts)),
        )
        if ack.cancel is not None:
            self._on_cancel(ack.cancel)
        refused = ack.cancel is not None and starts
        if not refused and any(entry["k"] != "start" for entry in entries):
            self._on_progress()
        if not starts:
            return
        if ack.cancel is None:
            _resolve([future for _, future in starts])
            return
        # The store wrote nothing: what is no start is still true and is sent again under the same number.
        kept = _without(entries, starts)
        await persist(self._executor, step(self._keys, self._claim, seq=self._seq, entries=kept, events=events))
        for _, future in starts:
            if not future.done():
                future.set_exception(CancelRequested(self._claim.run_id, ack.cancel))

    def _take(self) -> tuple[list[Entry], list[Entry]]:
        entries, self._entries = self._entries, []
        events, self._events = self._events, []
        return entries, events

    def _acknowledged(self, events: Sequence[Entry], oldest: float) -> None:
        if events:
            self.meter.written(time.monotonic() - oldest)

    def _lose(self, error: TurnfleetError) -> None:
        """Stop: the claim is another's, or the store refused a write. Either way the lease's next holder goes on."""
        if not isinstance(error, ClaimLost):
            _log.error("run %s: the store refused a write (%s); this worker lets the run go", self._claim.run_id, error)
        self._lost = error
        self._settle(error)
        self._on_lost(error)

    def _settle(self, error: TurnfleetError | None) -> None:
        futures = [future for _, future in self._starts] + self._waiting
        self._starts, self._waiting = [], []
        self._take()
        for future in futures:
            if future.done():
                continue
            if error is None:
                future.cancel()
            else:
                future.set_exception(error)
        self._flown.set()


def _without(entries: Sequence[Entry], starts: Sequence[tuple[Entry, asyncio.Future[None]]]) -> list[Entry]:
    return [entry for entry in entries if not any(entry is start for start, _ in starts)]


def _resolve(futures: Sequence[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)
