"""What a run owns, and how it all ends within twice the grace (RCX-8, RCX-11)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any, TypeVar

from turnfleet_kernel.contracts.quick import quick_init

__all__ = ["Belongings", "TeardownReport", "describe"]

T = TypeVar("T")


@quick_init
@dataclass(frozen=True, slots=True)
class TeardownReport:
    """How an invocation ended (RCX-11). Names say what; failures add why (``name: TypeName: message``)."""

    reason: str
    """completed, paused, deadline, error, disconnected, cancelled or preempted."""
    closed: tuple[str, ...] = ()
    """Resources and sinks that were closed."""
    cancelled: tuple[str, ...] = ()
    """Owned work that had to be cancelled."""
    overran: tuple[str, ...] = ()
    """Owned work that did not end even then."""
    sink_failures: tuple[str, ...] = ()
    stage_failures: tuple[str, ...] = ()
    resource_failures: tuple[str, ...] = ()
    duration_ms: float = 0.0
    """Running time of the invocation until its end was settled."""
    teardown_ms: float = 0.0

    @property
    def failures(self) -> tuple[str, ...]:
        """All failures that did not break the run, and the stage that did."""
        return (*self.sink_failures, *self.stage_failures, *self.resource_failures)


class Belongings:
    """Owned tasks and resources of one run, and the notes about how they fared."""

    def __init__(self, grace_seconds: float) -> None:
        """Own nothing yet."""
        self._grace = grace_seconds
        self._soft: float | None = None
        self._hard = 0.0
        self._stopped_at: float | None = None
        self._tasks: dict[asyncio.Task[Any], str] = {}
        self._resources: list[tuple[str, Callable[[], Awaitable[object] | None]]] = []
        self.closing = False
        self.closed: list[str] = []
        self.cancelled: list[str] = []
        self.overran: list[str] = []
        self.sink_failures: list[str] = []
        self.stage_failures: list[str] = []
        self.resource_failures: list[str] = []

    # -- owning

    def own(self, work: Coroutine[Any, Any, T], name: str, deadline_seconds: float | None) -> asyncio.Task[T]:
        """Start work as a task of the run."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks[task] = name
        task.add_done_callback(self._ended)
        if deadline_seconds is not None:
            timer = asyncio.get_running_loop().call_later(deadline_seconds, self._cancel, task)
            task.add_done_callback(lambda _: timer.cancel())
        return task

    def defer(self, name: str, close: Callable[[], Awaitable[object] | None]) -> None:
        """Own a resource."""
        self._resources.append((name, close))

    @property
    def any(self) -> bool:
        """Tell whether there is anything to end."""
        return bool(self._tasks or self._resources)

    def _cancel(self, task: asyncio.Task[Any]) -> None:
        if task.cancel():
            self.cancelled.append(self._tasks.get(task, task.get_name()))

    def _ended(self, task: asyncio.Task[Any]) -> None:
        name = self._tasks.pop(task, task.get_name())
        if not task.cancelled() and (error := task.exception()) is not None:
            self.resource_failures.append(describe(name, error))

    # -- ending

    def begin_end(self) -> None:
        """Let the time of the end run: one grace for patience, a second one for what was cancelled."""
        now = asyncio.get_running_loop().time()
        if self._soft is None:
            self._soft = now + self._grace
            self._hard = self._soft + self._grace
        elif self._stopped_at is not None:
            stood_still = now - self._stopped_at
            self._soft += stood_still
            self._hard += stood_still
        self._stopped_at = None

    @property
    def patient_until(self) -> float:
        """Tell, in the loop's time, when the first grace is used up."""
        return self._soft or 0.0

    def suspend_end(self) -> None:
        """Stop the time of the end while others act: what the consumer takes is no patience of ours."""
        self._stopped_at = asyncio.get_running_loop().time()

    async def end(self, tasks: Mapping[asyncio.Task[Any], str], *, patient: bool) -> None:
        """End tasks: wait within the grace if patient, cancel the rest, wait again, note who had to be and who stayed.

        A cancellation of the caller cancels the tasks at once and passes through.
        """
        soft = self.patient_until
        pending = set(tasks)
        try:
            if patient:
                pending = await _wait(pending, soft)
            self.cancelled.extend(tasks[task] for task in tasks if task in pending)
            for task in pending:
                task.cancel()
            pending = await _wait(pending, self._hard if patient else soft)
        except asyncio.CancelledError:
            for task in pending:
                task.cancel()
            raise
        for task in tasks:
            if task in pending:
                self.overran.append(tasks[task])
                task.add_done_callback(_forget)

    async def deliver(self, delivery: Coroutine[Any, Any, object]) -> None:
        """Let a sink take its last events within one grace from here: hung tools may have used the first up."""
        loop = asyncio.get_running_loop()
        task = loop.create_task(delivery)
        try:
            late = await _wait({task}, min(loop.time() + self._grace, self._hard))
            if late:
                task.cancel()
                await _wait({task}, loop.time())
        except asyncio.CancelledError:
            task.cancel()
            task.add_done_callback(_forget)
            raise
        if late:
            self.sink_failures.append("sink: did not take the last events within the grace")
            task.add_done_callback(_forget)
        elif not task.cancelled() and (error := task.exception()) is not None:
            self.sink_failures.append(describe("sink", error))

    async def close_one(self, name: str, close: Callable[[], Awaitable[object] | None]) -> None:
        """Close one resource within what is left of the end."""
        try:
            closing = close()
        except Exception as error:  # noqa: BLE001 - a resource that cannot close breaks no run
            self.resource_failures.append(describe(name, error))
            return
        if not isawaitable(closing):
            self.closed.append(name)
            return
        task = asyncio.ensure_future(closing)
        await self.end({task: name}, patient=True)
        if not task.done() or task.cancelled():
            return
        failure = task.exception()
        if failure is None:
            self.closed.append(name)
        else:
            self.resource_failures.append(describe(name, failure))

    async def end_all(self) -> None:
        """End owned work, then close resources, the last one first.

        A cancellation in the middle ends the patience, not the work: the rest is still ended, then it passes through.
        """
        self.closing = True
        interrupted: asyncio.CancelledError | None = None
        if self._tasks:
            tasks = dict(self._tasks)
            try:
                await self.end(tasks, patient=True)
            except asyncio.CancelledError as stop:
                interrupted = self._hurry(stop)
            for task in [task for task in tasks if task.done() and task in self._tasks]:
                task.remove_done_callback(self._ended)
                self._ended(task)
        while self._resources:
            name, close = self._resources.pop()
            try:
                await self.close_one(name, close)
            except asyncio.CancelledError as stop:
                interrupted = self._hurry(stop)
        if interrupted is not None:
            raise interrupted

    def _hurry(self, stop: asyncio.CancelledError) -> asyncio.CancelledError:
        self._soft = self._hard = asyncio.get_running_loop().time()
        return stop

    def report(self, reason: str, duration_ms: float, teardown_ms: float) -> TeardownReport:
        """Sum up."""
        return TeardownReport(
            reason,
            tuple(self.closed),
            tuple(self.cancelled),
            tuple(self.overran),
            tuple(self.sink_failures),
            tuple(self.stage_failures),
            tuple(self.resource_failures),
            duration_ms,
            teardown_ms,
        )


async def _wait(tasks: Iterable[asyncio.Task[Any]], until: float) -> set[asyncio.Task[Any]]:
    alive = {task for task in tasks if not task.done()}
    if not alive:
        return set()
    left = max(0.0, until - asyncio.get_running_loop().time())
    _, pending = await asyncio.wait(alive, timeout=left)
    return pending


def _forget(task: asyncio.Task[Any]) -> None:
    """Look at the result, so that asyncio does not report it as never retrieved."""
    if not task.cancelled():
        task.exception()


def describe(name: str, error: BaseException) -> str:
    """Write a failure down."""
    return f"{name}: {type(error).__name__}: {error}"
