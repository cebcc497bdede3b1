"""What measuring commands share: distributions, and the versions of what was measured."""

import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version


@dataclass(frozen=True, slots=True)
class Spread:
    """A distribution of durations in seconds; None where there is none."""

    count: int
    p50: float | None
    p99: float | None


def spread(durations: Iterable[float]) -> Spread:
    """Return count, median and 99th percentile (the nearest value, so that it is one that was measured)."""
    values = sorted(durations)
    if not values:
        return Spread(0, None, None)
    return Spread(len(values), _nearest(values, 0.50), _nearest(values, 0.99))


def versions(server: str, server_version: str) -> dict[str, str]:
    """Return the versions of what ran."""
    packages = {name: version(name) for name in ("turnfleet", "celery", "kombu", "redis")}
    return {**packages, server: server_version, "python": platform.python_version()}


def _nearest(values: Sequence[float], share: float) -> float:
    return values[min(len(values) - 1, int(share * len(values)))]
