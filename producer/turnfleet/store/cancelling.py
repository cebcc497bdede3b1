"""Ending a task for certain.

Before Python 3.12 `asyncio.wait_for` may lose a cancellation that comes in the same moment as what it waits for, and
clients of Redis wait with it: a task that is cancelled once may go on, and whoever waits for its end waits for ever.
"""

import asyncio
from typing import Any, Final

AGAIN_SECONDS: Final = 0.1


async def end_task(task: "asyncio.Task[Any]") -> None:
    """Cancel a task until it is over, however it ends."""
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=AGAIN_SECONDS)
    if not task.cancelled():
        task.exception()  # looked at, so that asyncio does not complain: nobody asks how this task ended
