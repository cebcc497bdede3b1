"""Time and ids that can be foretold."""

from datetime import UTC, datetime, timedelta

__all__ = ["CountingIds", "ManualClock"]


class ManualClock:
    """A clock that stands still until it is moved."""

    def __init__(self, start: datetime = datetime(2024, 1, 1, tzinfo=UTC)) -> None:
        """Start at a moment."""
        self._start = start
        self._passed = 0.0

    def now(self) -> datetime:
        """Tell the time."""
        return self._start + timedelta(seconds=self._passed)

    def monotonic(self) -> float:
        """Tell the seconds passed."""
        return self._passed

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._passed += seconds


class CountingIds:
    """Ids that can be foretold: ``id-1``, ``id-2`` and so on."""

    def __init__(self, prefix: str = "id") -> None:
        """Count from one."""
        self._prefix = prefix
        self._given = 0

    def new(self) -> str:
        """Give the next one."""
        self._given += 1
        return f"{self._prefix}-{self._given}"
