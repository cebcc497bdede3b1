"""What every kernel test has: a kernel, and a gate that lets no task and no generator outlive its test."""

import asyncio
import gc
from collections.abc import AsyncIterator

import pytest

from turnfleet_kernel import InvocationKernel


@pytest.fixture
def kernel() -> InvocationKernel:
    """Give the kernel. It is stateless: one would do for all tests."""
    return InvocationKernel()


@pytest.fixture(autouse=True)
async def nothing_is_left() -> AsyncIterator[None]:
    """Fail a test that leaves a task, or an async generator that was begun and not ended, behind."""
    yield
    gc.collect(0)
    for _ in range(3):
        await asyncio.sleep(0)
    left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert left == []
    assert unfinished_generators() == []


def unfinished_generators() -> list[str]:
    """Name the async generators that the loop knows of, that still stand somewhere, and that are no fixture's."""
    known = set(asyncio.get_running_loop()._asyncgens)  # type: ignore[attr-defined]
    names = [generator.ag_code.co_qualname for generator in known if generator.ag_frame is not None]
    return [name for name in names if name != nothing_is_left.__name__]
