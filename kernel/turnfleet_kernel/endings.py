"""How an invocation can end: a value, decided once from what left the loop (EVT-4, CXL, HK-1)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, assert_never

from turnfleet_kernel.context import RequestContext
from turnfleet_kernel.contracts.events import KernelEvent
from turnfleet_kernel.contracts.interrupts import Interrupt, InvocationPaused, InvocationPreempted
from turnfleet_kernel.contracts.values import InvocationOutcome
from turnfleet_kernel.errors import ContractViolationError
from turnfleet_kernel.observation import RunObservation

__all__ = ["Completed", "Ending", "Failed", "Paused", "Preempted", "Stopped", "last_events", "reason_of", "what_ended"]


@dataclass(frozen=True, slots=True)
class Completed:
    """All phases are done."""

    outcome: InvocationOutcome[Any]


@dataclass(frozen=True, slots=True)
class Paused:
    """The run waits for people."""

    interrupts: tuple[Interrupt, ...]


@dataclass(frozen=True, slots=True)
class Preempted:
    """The run was handed over."""

    error: InvocationPreempted


@dataclass(frozen=True, slots=True)
class Failed:
    """Something broke, or the time was spent."""

    error: BaseException
    reason: Literal["deadline", "error"]


@dataclass(frozen=True, slots=True)
class Stopped:
    """Somebody cancelled the run (CXL-3), or its consumer left (CXL-5): nobody is there to be shown anything."""

    error: BaseException
    reason: Literal["cancelled", "disconnected"]


Ending: TypeAlias = Completed | Paused | Preempted | Failed | Stopped


def what_ended(left: BaseException, ctx: RequestContext) -> Ending:
    """Decide what the exception that left the loop means."""
    if isinstance(left, InvocationPaused):
        return _pause(left, ctx)
    match left:
        case GeneratorExit():
            return Stopped(left, "disconnected")
        case asyncio.CancelledError():
            return Stopped(left, "cancelled")
        case InvocationPreempted():
            return Preempted(left)
        case _:
            return Failed(left, "deadline" if ctx.lifecycle.owns_timeout(left) else "error")


def _pause(left: InvocationPaused, ctx: RequestContext) -> Ending:
    """Accept a pause only from a round whose turn was accepted: from its tools or its pre-tool stages (HK-2)."""
    if ctx.round is not None and ctx.round.turn is not None:
        return Paused(ctx.pause(left.interrupts))
    violation = ContractViolationError(
        f"run {ctx.run_id}: something other than a tool or a pre-tool stage paused the run"
    )
    violation.__cause__ = left
    return Failed(violation, "error")


def reason_of(ending: Ending) -> str:
    """Give the teardown's reason (RCX-11)."""
    match ending:
        case Completed():
            return "completed"
        case Paused():
            return "paused"
        case Preempted():
            return "preempted"
        case Failed(reason=reason) | Stopped(reason=reason):
            return reason
        case _:
            assert_never(ending)


def last_events(ending: Ending, observation: RunObservation) -> Sequence[KernelEvent]:
    """Make the last events: stages that ended with the run, and the one that ends it (none after a hand-over)."""
    if isinstance(ending, Preempted):
        return ()
    events = list(observation.stage_events())
    match ending:
        case Completed(outcome):
            events.append(observation.make("done", outcome=outcome))
        case Paused(interrupts):
            events.append(observation.make(interrupts[0].kind, interrupt=interrupts[0], interrupts=interrupts))
        case Failed(error):
            events.append(observation.make("error", error=f"{type(error).__name__}: {error}"))
        case Stopped(reason=reason):
            events.append(observation.make("cancelled", reason=reason))
        case _:
            assert_never(ending)
    return events
