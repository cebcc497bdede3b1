"""Runs of a local fleet: handles like any, that wait for a while only, and say why when it was in vain."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing
from typing import Any, TypeVar

from turnfleet.client.async_fleet import AsyncRun
from turnfleet.client.fleet import Run
from turnfleet.client.follow import Until
from turnfleet.client.line import Line
from turnfleet.client.setup import Setup
from turnfleet.client.steps import execute
from turnfleet.errors import EventsTrimmed, RunFailed, RunPaused
from turnfleet.store import commands
from turnfleet_kernel.contracts.events import KernelEvent
from turnfleet_kernel.contracts.json import event_from_json
from turnfleet_kernel.contracts.values import InvocationOutcome
from turnfleet_worker.testing.caller import LoopCaller
from turnfleet_worker.testing.lines import LocalLine
from turnfleet_worker.testing.site import LocalSite
from turnfleet_worker.testing.waiting import explain, story

T = TypeVar("T")
FleetT = TypeVar("FleetT")

LATEST_BATCHES = 1_000
"""How many batches of a run's events are read to tell what it did."""

GLANCE_SECONDS = 0.2
"""After so long a wait it is looked whether anything could still come; then after twice as long, and so on."""


class AsyncLocalRun(AsyncRun[T]):
    """An `AsyncRun` of a local fleet. Without a timeout it waits for the fleet's `patience`."""

    def __init__(self, line: LocalLine, setup: Setup, run_id: str, output: Any, site: LocalSite) -> None:
        super().__init__(line, setup, run_id, output)
        self._site = site

    async def result(self, timeout: float | None = None) -> InvocationOutcome[T]:
        """Wait for the outcome, and for the person to have looked at every pause on the way (see `Run.result`).

        `RunFailed` comes from what failed the run, with its traceback. `timeout` in real seconds; the TimeoutError
        says what the run waits for, and comes at once when nothing will move it.
        """
        loop = asyncio.get_running_loop()
        ends = loop.time() + (self._site.patience if timeout is None else timeout)
        glance = GLANCE_SECONDS
        while True:
            try:
                return await super().result(max(0.0, min(ends - loop.time(), glance)))
            except RunPaused as paused:
                if not await self._goes_on(paused):
                    raise
            except RunFailed as failed:
                await self._site.delivered(self.run_id)
                failed.add_note(f"what it did: {story(await self._events())}")
                raise failed from self._site.failures.get(self.run_id)
            except TimeoutError:
                left, glance = ends - loop.time(), glance * 2
                if left <= 0 or await self._hopeless(left):
                    raise TimeoutError(await self._waits()) from None

    async def events(
        self, *, after: int = -1, until: Until = "terminal", timeout: float | None = None
    ) -> AsyncGenerator[KernelEvent, None]:
        """Iterate over the run's events (see `Run.events`); the TimeoutError says what the run waits for."""
        patience = self._site.patience if timeout is None else timeout
        try:
            async with aclosing(super().events(after=after, until=until, timeout=patience)) as events:
                async for event in events:
                    yield event
        except TimeoutError:
            raise TimeoutError(await self._waits()) from None

    async def _goes_on(self, paused: RunPaused) -> bool:
        """Say whether the person made more of a pause than what was seen of it; else note why not."""
        desk = self._site.desk
        await self._site.delivered(self.run_id)
        await desk.looked_at(self.run_id)
        status = await self.status()
        waiting = {interrupt.id for interrupt in status.interrupts}
        if status.state != "paused" or waiting != {interrupt.id for interrupt in paused.interrupts}:
            return True
        for note in desk.notes(self.run_id):
            paused.add_note(note)
        if self.run_id in desk.failures:
            raise paused from desk.failures[self.run_id]
        return False

    async def _hopeless(self, seconds: float) -> bool:
        """Say whether nothing in the fleet will move the run within so many seconds."""
        status = await self.status()
        if status.state not in {"queued", "running"}:
            return status.state == "parked"
        if not self._site.working:
            return True
        if self._site.holds(self.run_id):
            return False
        due = await self._site.due_in(self.run_id)  # None: it ended meanwhile
        return due is not None and due > seconds

    async def _waits(self) -> str:
        status = await self.status()
        events = await self._events()
        site = self._site
        why = explain(
            status, events, now=site.clock.now(), worker=site.working, held=site.working and site.holds(self.run_id)
        )
        did = f". What it did: {story(events)}" if events else ""
        return f"run {self.run_id!r} did not get on: {why}{did}"

    async def _events(self) -> list[KernelEvent]:
        """Give the events so far, as far as the log still has them."""
        command = commands.read_events(self._setup.keys, self.run_id, count=LATEST_BATCHES)
        try:
            page = await self._line.perform(execute(command))
        except EventsTrimmed:
            return []
        return [event_from_json(event) for event in page.events]


class LocalRun(Run[T]):
    """A `Run` of a local fleet. Without a timeout it waits for the fleet's `patience`."""

    def __init__(
        self,
        line: Line,
        setup: Setup,
        run_id: str,
        output: Any,
        *,
        caller: LoopCaller[FleetT],
        twin: Callable[[FleetT], AsyncLocalRun[T]],
    ) -> None:
        super().__init__(line, setup, run_id, output)
        self._caller: LoopCaller[Any] = caller
        self._twin = twin

    def result(self, timeout: float | None = None) -> InvocationOutcome[T]:
        """Wait for the outcome (see `AsyncLocalRun.result`)."""
        return self._caller.call(lambda fleet: self._twin(fleet).result(timeout))

    def events(
        self, *, after: int = -1, until: Until = "terminal", timeout: float | None = None
    ) -> Generator[KernelEvent, None, None]:
        """Iterate over the run's events (see `AsyncLocalRun.events`)."""
        return self._caller.iterate(lambda fleet: self._twin(fleet).events(after=after, until=until, timeout=timeout))
