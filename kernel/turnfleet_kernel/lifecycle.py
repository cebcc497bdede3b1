"""One run's time and one run's belongings: the deadline, owned background work, and the teardown.

The deadline (CXL-6) is one timer a run that cancels the step in progress, and a look at the clock before each step:
instant steps never let a timer fire. Every await of forward progress goes through ``bounded``, which also makes the
run's identity ambient for just that step (RCX-10) and tells apart whose cancellation ended it (CXL-3).
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from turnfleet_kernel.contracts.limits import PlanLimits
from turnfleet_kernel.errors import ContractViolationError, DeadlineExceeded, StepCancelledError
from turnfleet_kernel.identity import Ambient, enter, leave
from turnfleet_kernel.ports import Clock
from turnfleet_kernel.teardown import Belongings, TeardownReport, describe

__all__ = ["RunLifecycle"]

T = TypeVar("T")
ArgumentT = TypeVar("ArgumentT")


class RunLifecycle:
    """Bounds what a run does and owns what it started. One per invocation."""

    __slots__ = (
        "_ambient",
        "_began",
        "_belongings",
        "_clock",
        "_cut",
        "_ends_at",
        "_exceeded",
        "_limits",
        "_ran_before",
        "_reason",
        "_report",
        "_settled_at",
        "_spent",
        "_stepping",
        "_timer",
    )

    def __init__(self, clock: Clock, limits: PlanLimits, ambient: Ambient, *, ran_seconds: float = 0.0) -> None:
        """Prepare; the time starts with begin(). ``ran_seconds``: running time of the run's earlier invocations."""
        self._clock = clock
        self._limits = limits
        self._ambient = ambient
        self._ran_before = ran_seconds
        self._began: float | None = None
        self._ends_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._stepping: asyncio.Task[Any] | None = None
        self._cut = False
        self._spent = False
        self._exceeded: DeadlineExceeded | None = None
        self._reason: str | None = None
        self._settled_at: float | None = None
        self._report: TeardownReport | None = None
        self._belongings = Belongings(limits.teardown_grace_seconds)

    # -- time

    def begin(self) -> None:
        """Start the run's time."""
        self._began = self._clock.monotonic()
        if self._limits.deadline_seconds is not None:
            self._ends_at = self._began + self._limits.deadline_seconds - self._ran_before

    @property
    def running_seconds(self) -> float:
        """Tell the running time of this invocation so far; it stands still once the end is settled."""
        if self._began is None:
            return 0.0
        return (self._clock.monotonic() if self._settled_at is None else self._settled_at) - self._began

    @property
    def ran_seconds(self) -> float:
        """Tell the running time of the run over all its invocations."""
        return self._ran_before + self.running_seconds

    @property
    def spent(self) -> bool:
        """Tell whether the deadline has passed."""
        if not self._spent and self._ends_at is not None:
            self._spent = self._clock.monotonic() >= self._ends_at
        return self._spent

    def check(self, doing: str) -> None:
        """Look at the clock before a step that awaits nothing.

        Raises:
            DeadlineExceeded: the run's budget is spent.
        """
        if self.spent:
            raise self._deadline(doing)

    def call(self, step: Callable[[ArgumentT], T], argument: ArgumentT, *, doing: str) -> T:
        """Do one step of forward progress that awaits nothing, or that makes what is to be awaited by ``bounded``.

        Raises:
            DeadlineExceeded: the run's budget is spent.
            StepCancelledError: the step raised CancelledError; nobody can cancel a run in the middle of plain code.
        """
        if self._ends_at is not None:
            self.check(doing)
        token = enter(self._ambient)
        try:
            return step(argument)
        except asyncio.CancelledError as stop:
            raise _cancelled_itself(doing) from stop
        finally:
            leave(token)

    async def bounded(self, awaitable: Awaitable[T], *, doing: str) -> T:
        """Await one step of forward progress within the run's deadline (CXL-6, STG-4).

        Raises:
            DeadlineExceeded: the run's budget is spent; the text says what it was doing.
            StepCancelledError: the step cancelled itself, nobody else did.
            asyncio.CancelledError: the run is being cancelled, be it that the step caught that and came back.
        """
        if self._ends_at is not None:
            try:
                self.check(doing)
            except DeadlineExceeded:
                _discard(awaitable)
                raise
            if self._timer is None:
                left = self._ends_at - self._clock.monotonic()
                self._timer = asyncio.get_running_loop().call_later(left, self._on_deadline)
        task = asyncio.current_task()
        before = task.cancelling() if task is not None else 0
        token = enter(self._ambient)
        self._stepping = task
        try:
            result = await awaitable
        except asyncio.CancelledError as stop:
            if self._cut:
                self._cut = False
                if task is not None and task.uncancel() <= before:
                    raise self._deadline(doing) from stop
            elif task is not None and task.cancelling() <= before:
                raise _cancelled_itself(doing) from stop
            raise
        finally:
            self._stepping = None
            leave(token)
            if self._cut and task is not None:
                # The step ended in another way although we had cancelled it: take the request back.
                self._cut = False
                task.uncancel()
        if task is not None and task.cancelling() > before:
            # Somebody asked for the run's end, and the step came back as if nobody had: it, or a library beneath it,
            # caught the cancellation. Code that ends a cancellation of its own making takes its request back.
            raise asyncio.CancelledError
        return result

    def owns_timeout(self, error: BaseException) -> bool:
        """Tell whether this very exception is the run's own deadline, by identity (CXL-6)."""
        return error is self._exceeded

    def _on_deadline(self) -> None:
        self._spent = True
        if self._stepping is not None:
            self._cut = True
            self._stepping.cancel()

    def _deadline(self, doing: str) -> DeadlineExceeded:
        if self._exceeded is None:
            run_id, budget = self._ambient.identity.run_id, self._limits.deadline_seconds
            self._exceeded = DeadlineExceeded(f"run {run_id} spent its {budget} seconds while {doing}")
        return self._exceeded

    # -- belongings

    @property
    def closed(self) -> bool:
        """Tell whether teardown has begun: nothing can be owned any more."""
        return self._report is not None or self._belongings.closing

    @property
    def report(self) -> TeardownReport | None:
        """Give the teardown report, None while the run is alive."""
        return self._report

    @property
    def reason(self) -> str | None:
        """Tell why the run ended, None before it was settled."""
        return self._reason

    @property
    def notes(self) -> Belongings:
        """Give the place where failures that do not break the run are noted."""
        return self._belongings

    def spawn(
        self, work: Coroutine[Any, Any, T], *, owner: str, purpose: str, deadline_seconds: float | None = None
    ) -> asyncio.Task[T]:
        """Run background work that this run owns (RCX-8); teardown waits for it within the grace.

        Raises:
            ContractViolationError: the run has ended.
        """
        if self.closed:
            work.close()
            raise ContractViolationError(
                f"run {self._ambient.identity.run_id} has ended; {owner} cannot start {purpose}"
            )
        return self._belongings.own(work, f"{owner}: {purpose}", deadline_seconds)

    def defer(self, name: str, close: Callable[[], Awaitable[object] | None]) -> None:
        """Close a resource at teardown, the last one first."""
        self._belongings.defer(name, close)

    async def end_tasks(self, tasks: dict[asyncio.Task[Any], str]) -> None:
        """Cancel tasks and await them within the grace (CXL-4); who stays is noted as overran."""
        await self._ending(self._belongings.end(tasks, patient=False))

    async def close_quietly(self, name: str, close: Callable[[], Awaitable[object]]) -> None:
        """Close something within the grace; its failure is noted, not raised.

        In the same task, unlike all other endings: a provider's stream may hold what only its own task can release.
        """
        self._belongings.begin_end()
        try:
            async with asyncio.timeout_at(self._belongings.patient_until):
                await close()
        except Exception as error:  # noqa: BLE001 - what cannot close breaks no run
            self._belongings.resource_failures.append(describe(name, error))
        finally:
            self._belongings.suspend_end()

    # -- the end

    def settle(self, reason: str) -> None:
        """Fix the reason of the teardown; the first one stands (EVT-4)."""
        if self._reason is None:
            self._reason = reason
            self._settled_at = self._clock.monotonic()

    async def deliver_terminal(self, delivery: Coroutine[Any, Any, object]) -> None:
        """Hand last events to the sink within the grace, however spent the deadline is (EVT-10)."""
        await self._ending(self._belongings.deliver(delivery))

    async def teardown(self, reason: str) -> TeardownReport:
        """End all that the run owns, once; asked again, the same report (RCX-11)."""
        if self._report is None:
            self.settle(reason)
            if self._timer is not None:
                self._timer.cancel()
            began = self._clock.monotonic()
            try:
                if self._belongings.any:
                    await self._ending(self._belongings.end_all())
            finally:
                took_ms = (self._clock.monotonic() - began) * 1000
                self._report = self._belongings.report(self._reason or reason, self.running_seconds * 1000, took_ms)
        return self._report

    async def _ending(self, part: Coroutine[Any, Any, None]) -> None:
        """Do a part of the run's end; the parts together take at most twice the grace."""
        self._belongings.begin_end()
        try:
            await part
        finally:
            self._belongings.suspend_end()


def _cancelled_itself(doing: str) -> StepCancelledError:
    return StepCancelledError(f"while {doing}: it ended in a cancellation of its own making")


def _discard(awaitable: Awaitable[object]) -> None:
    if inspect.iscoroutine(awaitable):
        awaitable.close()
    elif isinstance(awaitable, asyncio.Future):
        awaitable.cancel()
