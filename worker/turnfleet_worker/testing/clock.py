"""The time of one local fleet: the machine's, and what was skipped."""

import time
from datetime import UTC, datetime, timedelta


class FleetClock:
    """A `Clock` for plans, and what the fleet's Redis tells the time by. It only ever moves forward."""

    def __init__(self) -> None:
        self.skipped = 0.0
        """Seconds that were skipped so far."""

    def now(self) -> datetime:
        """Tell the time."""
        return datetime.now(UTC) + timedelta(seconds=self.skipped)

    def monotonic(self) -> float:
        """Tell the seconds that passed since some moment."""
        return time.monotonic() + self.skipped

    def unix(self) -> float:
        """Tell the time in Unix seconds."""
        return time.time() + self.skipped

    def advance(self, seconds: float) -> None:
        """Skip so many seconds."""
        self.skipped += seconds
