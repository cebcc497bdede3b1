"""The producer's client: `Fleet` and `AsyncFleet`, and the handles of their runs."""

from turnfleet.client.async_fleet import AsyncFleet, AsyncRun
from turnfleet.client.fleet import Fleet, Run

__all__ = ["AsyncFleet", "AsyncRun", "Fleet", "Run"]
