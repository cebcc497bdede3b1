"""The two faces of a local fleet: a `Fleet` and an `AsyncFleet`, each with what a test may do to it."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self

from turnfleet.client.async_fleet import AsyncFleet
from turnfleet.client.capabilities import Capabilities
from turnfleet.client.fleet import Fleet
from turnfleet.client.setup import Setup
from turnfleet_worker.registry import Registry
from turnfleet_worker.settings import WorkerSettings
from turnfleet_worker.testing.caller import LoopCaller
from turnfleet_worker.testing.handles import AsyncLocalRun, LocalRun
from turnfleet_worker.testing.lines import URL, LocalLine, ThreadLine
from turnfleet_worker.testing.person import Person
from turnfleet_worker.testing.site import LocalSite
from turnfleet_worker.testing.tools import ToolFailure


class _Told:
    """What can be asked of a local fleet without waiting for it."""

    _site: LocalSite

    @property
    def now(self) -> datetime:
        """What time it is in the fleet."""
        return self._site.clock.now()

    @property
    def person(self) -> Person | None:
        """The scripted person; `person.seen` tells what was asked."""
        return self._site.person

    @property
    def tool_failures(self) -> tuple[ToolFailure, ...]:
        """What tools raised so far, with tracebacks: a model is only told of it, and may go on as if nothing were."""
        return tuple(self._site.tool_failures)

    def lose_next(self, count: int = 1) -> None:
        """Lose the next messages: their runs stay queued until time passes and the sweep offers them again."""
        self._site.broker.lose += count

    def duplicate_next(self, count: int = 1) -> None:
        """Deliver each of the next messages twice."""
        self._site.broker.duplicate += count


class AsyncLocalFleet(_Told, AsyncFleet):
    """An `AsyncFleet` with its worker, on the test's own event loop."""

    def __init__(self, site: LocalSite, settings: WorkerSettings) -> None:
        super().__init__(
            URL, name=site.keys.fleet, shards=settings.shards, retention_seconds=settings.retention_seconds
        )
        self._setup = _at_once(self._setup)
        self._site = site
        self._local = LocalLine(site)
        self._line = self._local

    async def skip(
        self,
        span: timedelta | float = 0.0,
        *,
        seconds: float = 0,
        minutes: float = 0,
        hours: float = 0,
        days: float = 0,
    ) -> None:
        """Let time pass in the fleet, a timedelta or seconds, in no time.

        What falls due on the way happens, each at its own moment and in order: delayed runs start, interrupts and runs
        expire, leases of a killed worker end, ended runs are forgotten. Timers of asyncio stay what they are.
        """
        await self._site.skip(_seconds(span, seconds=seconds, minutes=minutes, hours=hours, days=days))

    async def settle(self) -> None:
        """Wait until nothing moves: every run has ended, or waits for a person, for time, or inside of a call."""
        await self._site.settle()

    async def kill_worker(self, *, restart: bool = True) -> None:
        """Let the worker die with its claims; another one starts at once, unless `restart` is False.

        Its runs are `running` until their lease ends: skip time. Its coroutines are cancelled, so that `finally`
        blocks of tools run, which a real kill would not let them; nothing that they do reaches the run.
        """
        await self._site.kill_worker(restart=restart)

    async def stop_worker(self) -> None:
        """Stop the worker as a deploy does: it hands its runs back. None is left to take them."""
        await self._site.stop_worker()

    async def start_worker(self, registry: Registry | None = None) -> None:
        """Start a worker, in the place of the one there is; with another registry, as a new build would bring it."""
        await self._site.start_worker(registry)

    async def leave(self) -> None:
        """End the fleet; its context manager does."""
        await self._site.close()
        await self.aclose()

    def _handle(self, run_id: str, output: Any) -> AsyncLocalRun[Any]:
        return AsyncLocalRun(self._local, self._setup, run_id, output, self._site)


class LocalFleet(_Told, Fleet):
    """A `Fleet` with its worker, whose event loop is a thread of its own. `AsyncLocalFleet` says what methods do.

    It begins with its first use and ends with `close()`, or with the `with` or the fixture that holds it. Whoever wants
    to await it says `async with` instead, which gives an `AsyncLocalFleet`.
    """

    def __init__(self, opening: Callable[[], Awaitable[AsyncLocalFleet]], name: str, settings: WorkerSettings) -> None:
        super().__init__(URL, name=name, shards=settings.shards, retention_seconds=settings.retention_seconds)
        self._setup = _at_once(self._setup)
        self._opening = opening
        self._caller = LoopCaller(opening, AsyncLocalFleet.leave)
        self._line = ThreadLine(name, self._caller, lambda fleet: fleet._local)  # noqa: SLF001 - the two are one thing
        self._awaited: AsyncLocalFleet | None = None
        self._holders = 0

    @property
    def _site(self) -> LocalSite:  # type: ignore[override]
        return self._caller.fleet._site  # noqa: SLF001

    def __enter__(self) -> Self:
        _ = self._caller.fleet
        self._holders += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._holders -= 1
        self.close()

    async def __aenter__(self) -> AsyncLocalFleet:
        if self._caller.begun or self._awaited is not None:
            raise RuntimeError("this local fleet has begun already: call local_fleet() again for another one")
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise RuntimeError(
                "a local fleet runs on asyncio: with another event loop, use `with local_fleet(...)`"
            ) from None
        self._caller.end()
        self._awaited = await self._opening()
        return self._awaited

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._awaited is not None
        await self._awaited.leave()

    def close(self) -> None:
        """End the fleet and all that it started; in a `with`, or with the fixture, it goes on until that ends it."""
        if not self._holders:
            self._caller.end()

    @contextmanager
    def held(self) -> Iterator[Self]:
        """Keep the fleet from ending before this does; unlike `with`, without letting it begin."""
        self._holders += 1
        try:
            yield self
        finally:
            self._holders -= 1
            self.close()

    def skip(
        self,
        span: timedelta | float = 0.0,
        *,
        seconds: float = 0,
        minutes: float = 0,
        hours: float = 0,
        days: float = 0,
    ) -> None:
        """Let time pass in the fleet, in no time."""
        self._caller.call(lambda fleet: fleet.skip(span, seconds=seconds, minutes=minutes, hours=hours, days=days))

    def settle(self) -> None:
        """Wait until nothing moves."""
        self._caller.call(AsyncLocalFleet.settle)

    def kill_worker(self, *, restart: bool = True) -> None:
        """Let the worker die with its claims."""
        self._caller.call(lambda fleet: fleet.kill_worker(restart=restart))

    def stop_worker(self) -> None:
        """Stop the worker as a deploy does."""
        self._caller.call(AsyncLocalFleet.stop_worker)

    def start_worker(self, registry: Registry | None = None) -> None:
        """Start a worker, in the place of the one there is."""
        self._caller.call(lambda fleet: fleet.start_worker(registry))

    def _handle(self, run_id: str, output: Any) -> LocalRun[Any]:
        return LocalRun(
            self._line,
            self._setup,
            run_id,
            output,
            caller=self._caller,
            twin=lambda fleet: fleet._handle(run_id, output),  # noqa: SLF001
        )


def _at_once(setup: Setup) -> Setup:
    """Let a client hear of a new worker at once: a test starts one and enqueues in the same moment."""
    return replace(setup, capabilities=Capabilities(fresh_seconds=0.0))


def _seconds(span: timedelta | float, **parts: float) -> float:
    given = span.total_seconds() if isinstance(span, timedelta) else span
    return given + timedelta(**parts).total_seconds()
