"""What can be wrong about one run."""

from collections.abc import Sequence
from typing import Final

from turnfleet.interrupt import RunInterrupt
from turnfleet_kernel.errors import TurnfleetError

__all__ = [
    "EventsLost",
    "EventsTrimmed",
    "IllegalTransition",
    "RunCancelled",
    "RunEnded",
    "RunError",
    "RunExpired",
    "RunFailed",
    "RunIdConflict",
    "RunPaused",
    "UnknownRun",
]


class RunError(TurnfleetError):
    """Something about one run, named by `run_id`."""

    def __init__(self, run_id: str, message: str) -> None:
        super().__init__(message)
        self.run_id = run_id


class UnknownRun(RunError):
    """There is no such run: it was never enqueued, was deleted, or its retention after the end is over."""

    def __init__(self, run_id: str) -> None:
        super().__init__(
            run_id, f"run {run_id!r} is unknown: never enqueued in this fleet, deleted, or past its retention"
        )


class RunIdConflict(RunError):
    """The run id belongs to a run with another request."""

    def __init__(self, run_id: str) -> None:
        super().__init__(
            run_id,
            f"run id {run_id!r} is taken by another request (its digest differs): "
            "enqueue the same plan and request to get that run, or use another run id",
        )


_WHEN_POSSIBLE: Final = {
    "resume": "only a paused run takes decisions",
    "retry": "only a failed run can be retried; to do its work again, enqueue it under another id",
}


class IllegalTransition(RunError):
    """The run's state does not allow what was asked. Nothing changed."""

    def __init__(self, run_id: str, event: str, state: str) -> None:
        why = _WHEN_POSSIBLE.get(event, f"{event!r} is not possible in that state")
        super().__init__(run_id, f"run {run_id!r} is {state}: {why}")
        self.event = event
        self.state = state


class EventsTrimmed(RunError):
    """The events asked for have left the run's bounded log; `first_index` is the earliest one still there."""

    def __init__(self, run_id: str, first_index: int) -> None:
        super().__init__(
            run_id,
            f"run {run_id!r}: events before index {first_index} were trimmed from its log; "
            f"read from after={first_index - 1}, or read the run's status and result",
        )
        self.first_index = first_index


class EventsLost(RunError):
    """The run's log ends before what the reader has had: a failover lost it. `next_index` is where it goes on."""

    def __init__(self, run_id: str, had: int, next_index: int) -> None:
        super().__init__(
            run_id,
            f"run {run_id!r}: events up to index {had} were read, but its log ends before index {next_index}: "
            "a failover lost the others, and what comes in their place may differ; "
            f"read anew from after=-1, or go on from after={next_index - 1}",
        )
        self.next_index = next_index


class RunPaused(RunError):
    """The run waits for people. `interrupts` are the open ones, in request order."""

    def __init__(self, run_id: str, interrupts: Sequence[RunInterrupt] = ()) -> None:
        super().__init__(
            run_id, f"run {run_id!r} is paused: {len(interrupts)} interrupt(s) open; decide them with run.resume()"
        )
        self.interrupts = tuple(interrupts)


class RunEnded(RunError):
    """The run ended without an outcome."""


class RunFailed(RunEnded):
    """The run failed; `error` is its terminal event's text. `run.retry()` goes on from its journal."""

    def __init__(self, run_id: str, error: str) -> None:
        super().__init__(run_id, f"run {run_id!r} failed: {error}")
        self.error = error


class RunCancelled(RunEnded):
    """The run was cancelled, for `reason`."""

    def __init__(self, run_id: str, reason: str = "") -> None:
        super().__init__(run_id, f"run {run_id!r} was cancelled" + (f": {reason}" if reason else ""))
        self.reason = reason


class RunExpired(RunEnded):
    """The run's `expires` passed, or an interrupt without a default decision did."""

    def __init__(self, run_id: str, reason: str = "") -> None:
        super().__init__(run_id, f"run {run_id!r} expired" + (f": {reason}" if reason else ""))
        self.reason = reason
