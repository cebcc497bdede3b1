"""What an invocation can be stuck in, or broken by."""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any

from turnfleet_kernel import (
    Interrupt,
    InvocationPaused,
    InvocationPlan,
    InvocationPreempted,
    KernelEvent,
    Phase,
)
from turnfleet_kernel.testing import RecordingSink, call, make_plan

PHASES = [phase for phase in Phase if phase is not Phase.BIND]

STUCK: ContextVar[asyncio.Event | None] = ContextVar("stuck", default=None)


async def forever(*_: object, **__: object) -> None:
    """Wait for what never comes; tell who wants to know when it got here."""
    got_here = STUCK.get()
    if got_here is not None:
        got_here.set()
    await asyncio.Event().wait()


async def until_stuck(work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Start work and return when it is stuck."""
    got_here = asyncio.Event()
    token = STUCK.set(got_here)
    task = asyncio.ensure_future(work)
    STUCK.reset(token)
    await got_here.wait()
    return task


def explode(*_: object, **__: object) -> None:
    """Fail."""
    raise RuntimeError("boom")


def preempt(*_: object, **__: object) -> None:
    """Hand the run over."""
    raise InvocationPreempted("drain")


def ask(*_: object, **__: object) -> None:
    """Wait for a person."""
    raise InvocationPaused(Interrupt("q", "question"))


def steps(tool: Callable[..., Any] = lambda: 1, **options: Any) -> InvocationPlan:
    """Make a plan of two rounds, one tool call in the first."""
    model = options.pop("model", [call("t", "c1"), "the end"])
    return make_plan(model, tools=options.pop("tools", {"t": tool}), **options)


class StuckModel:
    """A model that never answers."""

    async def invoke(self, transcript: object) -> Any:
        """Wait for what never comes."""
        await forever()

    def stream(self, transcript: object) -> Any:
        """Stream nothing, for ever."""
        return self

    async def deltas(self) -> Any:
        """Give no delta."""
        await forever()
        yield None

    def result(self) -> Any:
        """Be never asked."""
        raise AssertionError("there is no result")


class BrokenSink(RecordingSink):
    """A sink that keeps events and fails all the same."""

    async def deliver(self, event: KernelEvent) -> None:
        """Keep the event and fail."""
        await super().deliver(event)
        raise ConnectionError("sink down")
