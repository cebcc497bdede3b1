"""What was measured, as lines for people and as JSON for scripts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from turnfleet_worker.local.figures import Spread


@dataclass(frozen=True, slots=True)
class Rate:
    """So many of something in a second, over `count` of them."""

    name: str
    what: str
    per_second: float
    count: int

    def row(self) -> tuple[str, str]:
        """Return it for a table."""
        return self.name, f"{self.per_second:,.0f} {self.what} a second (n={self.count})"

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {"name": self.name, "per_second": round(self.per_second, 1), "count": self.count}


@dataclass(frozen=True, slots=True)
class Latency:
    """How long something took, in seconds."""

    name: str
    what: str
    seconds: Spread

    def row(self) -> tuple[str, str]:
        """Return it for a table."""
        if self.seconds.p50 is None or self.seconds.p99 is None:
            return self.name, f"not measured ({self.what})"
        p50, p99 = self.seconds.p50 * 1000, self.seconds.p99 * 1000
        return self.name, f"p50 {p50:.1f} ms, p99 {p99:.1f} ms ({self.what}; n={self.seconds.count})"

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON, in seconds."""
        return {
            "name": self.name,
            "p50": self.seconds.p50,
            "p99": self.seconds.p99,
            "count": self.seconds.count,
        }


Figure = Rate | Latency


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All figures of one bench. `unmeasured`: what its time did not suffice for."""

    figures: tuple[Figure, ...]
    unmeasured: tuple[str, ...]
    seconds: float
    workers: int
    concurrency: int
    cores: int
    redis: Literal["given", "own"]
    versions: Mapping[str, str]

    def rows(self) -> list[tuple[str, str]]:
        """Return the lines of the table."""
        numbers = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        own = "a Redis of its own" if self.redis == "own" else "the Redis given"
        return [
            *(figure.row() for figure in self.figures),
            *((name, "not measured: the time was over") for name in self.unmeasured),
            ("on", f"{self.cores} cores, {self.workers} worker processes of {self.concurrency} runs each, {own}"),
            ("versions", numbers),
        ]

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON."""
        return {
            "figures": [figure.to_json() for figure in self.figures],
            "unmeasured": list(self.unmeasured),
            "seconds": round(self.seconds, 3),
            "workers": self.workers,
            "concurrency": self.concurrency,
            "cores": self.cores,
            "redis": self.redis,
            "versions": dict(self.versions),
        }
