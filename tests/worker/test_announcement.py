"""What a worker says of itself: that it is alive, and how far its clock is off."""

import time

from turnfleet.store import Keys, commands
from turnfleet.store.executor import AsyncExecutor
from turnfleet_worker.announcement import Announcer


async def test_a_worker_says_from_the_first_time_on_how_far_its_clock_is_off(redis_url: str, fleet_name: str) -> None:
    """An hour ahead is told as an hour, give or take what the answer took."""
    executor, keys = AsyncExecutor(redis_url), Keys(fleet_name)
    announcer = Announcer(
        executor, keys, "w1", every_seconds=60, ttl_ms=60_000, body=dict, clock=lambda: time.time() + 3600
    )
    await announcer.announce()
    (clock,) = (each["clock"] for each in await executor.execute(commands.workers(keys)))
    assert abs(clock["offset_ms"] - 3_600_000) <= clock["within_ms"] + 1.1  # the server's time has whole milliseconds
    await executor.aclose()
