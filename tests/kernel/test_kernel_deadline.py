"""The deadline: one for all running time, told apart from timeouts of others."""

import asyncio

import pytest
from kernel.kit import ASK, walk
from kernel.stuck import forever, steps

from turnfleet_kernel import (
    DeadlineExceeded,
    InvocationKernel,
    Phase,
    RequestContext,
    Stage,
)
from turnfleet_kernel.testing import ManualClock


async def test_the_error_says_what_the_run_was_doing() -> None:
    """And which run, and how much it had (CXL-6)."""
    seen = await walk(steps(forever, deadline_seconds=1), run_id="r9")
    assert str(seen.raised) == "run r9 spent its 1 seconds while running tools"


async def test_instant_steps_are_charged_too() -> None:
    """No timer fires between them: the clock is looked at before each (CXL-6, STG-4)."""
    clock = ManualClock()
    stage = Stage("slow", Phase.POST_MODEL, lambda _: clock.advance(6))
    seen = await walk(steps(stages=[stage], clock=clock, deadline_seconds=10))
    assert (seen.report.reason, seen.kinds.count("usage")) == ("deadline", 2)


async def test_the_time_of_the_consumer_is_charged(kernel: InvocationKernel) -> None:
    """A slow consumer spends the run's budget (EVT-8, CXL-6)."""
    clock = ManualClock()

    async def dawdle() -> None:
        async for event in kernel.stream(steps(clock=clock, deadline_seconds=10), ASK):
            if event.kind == "tool_call":
                clock.advance(11)

    with pytest.raises(DeadlineExceeded):
        await dawdle()


async def test_a_time_limit_of_the_consumer_is_a_cancellation(kernel: InvocationKernel) -> None:
    """Somebody else's clock is not the run's deadline (CXL-3, CXL-6)."""
    plan = steps(forever, deadline_seconds=60)
    ctx = RequestContext(plan)
    with pytest.raises(TimeoutError) as raised:
        async with asyncio.timeout(0.01):
            await kernel.run(plan, ASK, context=ctx)
    assert not isinstance(raised.value, DeadlineExceeded)
    assert ctx.report is not None
    assert ctx.report.reason == "cancelled"


async def test_a_deadline_that_a_port_raises_is_not_that_of_the_run() -> None:
    """Told apart by identity, not by type (CXL-6)."""
    seen = await walk(steps(model=[DeadlineExceeded("of another run")], deadline_seconds=60))
    assert (seen.report.reason, type(seen.raised)) == ("error", DeadlineExceeded)


async def test_a_step_that_outruns_its_cancellation_still_ends_the_run() -> None:
    """A tool port or stage may swallow the cancellation; the next step raises (CXL-6)."""

    async def swallows(_: object) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return

    seen = await walk(steps(stages=[Stage("s", Phase.PRE_MODEL, swallows)], deadline_seconds=0.02))
    task = asyncio.current_task()
    assert (seen.report.reason, task and task.cancelling()) == ("deadline", 0)
