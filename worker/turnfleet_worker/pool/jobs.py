"""One message from the moment the pool holds it to its outcome."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from celery.exceptions import SoftTimeLimitExceeded

from turnfleet_worker.pool.ports import Delivery, Host

if TYPE_CHECKING:
    from turnfleet_worker.pool.request import InvokeRequest

__all__ = ["Cancelled", "Job", "OutOfTime", "Outcome", "Raised", "Returned"]


@dataclass(frozen=True, slots=True)
class Returned:
    """The host came back with what is to be shown."""

    value: object


@dataclass(frozen=True, slots=True)
class Raised:
    """The host raised: `Ignore`, `Reject`, or something that went wrong."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The coroutine was cancelled and went."""


@dataclass(frozen=True, slots=True)
class OutOfTime:
    """The hard time limit passed; the coroutine was cancelled and is not waited for."""

    limit: float


Outcome = Returned | Raised | Cancelled | OutOfTime
Report = Callable[["Job", Outcome], None]


class Job:
    """One message in the pool's hands. Its flags belong to the consumer's thread, its coroutine to the loop's.

    terminated: a person ended it while it ran. abandoned: the process ends and lets go of it. over: told to Celery.
    """

    def __init__(self, number: int, request: "InvokeRequest", delivery: Delivery) -> None:
        self.number = number
        self.request = request
        self.delivery = delivery
        self.began = 0.0
        self.terminated = False
        self.abandoned = False
        self.over = False
        self._task: asyncio.Task[object] | None = None
        self._soft_limit: float | None = None

    def start(self, host: Host, report: Report, on_soft_limit: Callable[["Job", float], None]) -> None:
        """Create the coroutine and arm its time limits; `report` is called with the outcome, on the loop.

        After a hard time limit it is called once more when the coroutine has really ended.
        """
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._handle(host))
        hard, soft = self.request.limits()
        timers = []
        if soft is not None:
            timers.append(loop.call_later(soft, self._out_of_soft_time, soft, on_soft_limit))
        if hard is not None:
            timers.append(loop.call_later(hard, self._out_of_time, hard, report))

        def ended(task: "asyncio.Task[object]") -> None:
            for timer in timers:
                timer.cancel()
            report(self, self._outcome(task))

        self._task.add_done_callback(ended)

    def cancel(self) -> None:
        """Cancel the coroutine; on the loop."""
        if self._task is not None:
            self._task.cancel()

    async def _handle(self, host: Host) -> object:
        try:
            return await host.handle(self.request.envelope, self.delivery)
        except (SystemExit, KeyboardInterrupt) as error:
            # A task lets these two through to the loop, which would end with everything that runs on it.
            raise RuntimeError(f"the run raised {type(error).__name__}: a tool must not end the process") from error

    def _out_of_soft_time(self, limit: float, on_soft_limit: Callable[["Job", float], None]) -> None:
        self._soft_limit = limit
        on_soft_limit(self, limit)
        self.cancel()

    def _out_of_time(self, limit: float, report: Report) -> None:
        report(self, OutOfTime(limit))
        self.cancel()

    def _outcome(self, task: "asyncio.Task[object]") -> Outcome:
        if task.cancelled():
            return Cancelled() if self._soft_limit is None else Raised(SoftTimeLimitExceeded(self._soft_limit))
        error = task.exception()
        return Returned(task.result()) if error is None else Raised(error)
