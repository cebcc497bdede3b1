"""The report of a chaos: its figures, as lines for people and as JSON for scripts."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from turnfleet_worker.chaos.crew import FATES
from turnfleet_worker.chaos.faults import FAULT_KINDS
from turnfleet_worker.chaos.people import Resumption, Seen
from turnfleet_worker.chaos.verdict import Verdict
from turnfleet_worker.local.figures import Spread

MARKS: Final = frozenset({"resumed", "rewind"})
"""Events with which a new invocation of a run begins."""

SHOWN: Final = 20
"""Sentences of a kind that are shown; JSON has them all."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Runs that a worker had in its hands when it was killed or frozen (`at`, Unix seconds)."""

    at: float
    run_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What `turnfleet chaos` says at its end. `seconds` is all of it, with the time to settle; `asked` the faults'."""

    seed: int
    asked: float
    seconds: float
    workers: int
    verdict: Verdict
    recovery: Spread
    resume: Spread
    faults: Counter[str]
    missed: Counter[str]
    processes: Counter[str]
    versions: Mapping[str, str]

    @property
    def good(self) -> bool:
        """Whether the exit code is 0."""
        return self.verdict.good

    def rows(self) -> list[tuple[str, str]]:
        """Return the table: a name and its figures, one pair a row."""
        verdict, processes = self.verdict, self.processes
        doubts = ", ".join(f"{word} {verdict.doubts[word]}" for word in sorted(verdict.doubts)) or "none"
        return [
            ("seed", f"{self.seed}: {self.asked:.0f} s of faults, {self.seconds:.0f} s in all, {self.workers} workers"),
            ("runs", _counted(verdict.runs, ("completed", "failed", "cancelled", "lost"))),
            (
                "effects",
                f"once {verdict.once}, repeated under the same key {verdict.keyed}, not made {verdict.not_made}",
            ),
            ("", f"repeated by a worker that woke up {verdict.late}, unexplained {len(verdict.unexplained)}"),
            ("in doubt", f"{sum(verdict.doubts.values())} answered: {doubts}"),
            ("turns", f"{verdict.turns} bought, {verdict.turns_again} cut off and bought again"),
            (
                "streams",
                _sentence(
                    f"{verdict.streams} read ({verdict.events} events)",
                    f"{verdict.followed} followed live",
                    f"broken {len(verdict.broken)}",
                ),
            ),
            ("recovery", _spread(self.recovery, "from a worker's loss to the run's next event")),
            ("resume", _spread(self.resume, "from a decision to the run's next event")),
            ("faults", _counted(self.faults, FAULT_KINDS)),
            *([("", "not done, for want of a victim: " + _counted(self.missed, FAULT_KINDS))] if self.missed else []),
            (
                "processes",
                _sentence(f"{processes['started']} workers started", *(f"{processes[fate]} {fate}" for fate in FATES)),
            ),
            ("versions", ", ".join(f"{name} {number}" for name, number in self.versions.items())),
            ("verdict", "nothing lost, no repeat unexplained" if self.good else "NOT GOOD, see below"),
        ]

    def findings(self) -> list[str]:
        """Return what is wrong, one sentence each."""
        verdict = self.verdict
        lists = {"lost": verdict.lost, "unexplained": verdict.unexplained, "broken stream": verdict.broken}
        lines: list[str] = []
        for name, sentences in lists.items():
            lines += [f"{name}: {sentence}" for sentence in sentences[:SHOWN]]
            if len(sentences) > SHOWN:
                lines.append(f"{name}: {len(sentences) - SHOWN} more; --json lists them all")
        return lines

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object that `--json` prints."""
        verdict = self.verdict
        return {
            "good": self.good,
            "seed": self.seed,
            "fault_seconds": self.asked,
            "seconds": round(self.seconds, 1),
            "workers": self.workers,
            "runs": {name: verdict.runs[name] for name in ("completed", "failed", "cancelled", "lost")},
            "effects": {
                "once": verdict.once,
                "repeated_same_key": verdict.keyed,
                "repeated_by_frozen_worker": verdict.late,
                "not_made": verdict.not_made,
                "unexplained": len(verdict.unexplained),
            },
            "in_doubt": dict(sorted(verdict.doubts.items())),
            "turns": {"bought": verdict.turns, "bought_again": verdict.turns_again},
            "streams": {
                "read": verdict.streams,
                "events": verdict.events,
                "followed": verdict.followed,
                "broken": len(verdict.broken),
            },
            "recovery_seconds": _spread_json(self.recovery),
            "resume_seconds": _spread_json(self.resume),
            "faults": dict(sorted(self.faults.items())),
            "faults_not_done": dict(sorted(self.missed.items())),
            "processes": dict(sorted(self.processes.items())),
            "versions": dict(self.versions),
            "lost": verdict.lost,
            "unexplained": verdict.unexplained,
            "broken": verdict.broken,
        }


def recoveries(losses: Iterable[Loss], streams: Mapping[str, Sequence[Seen]]) -> list[float]:
    """Return how long each run of a lost worker stood still: until the event with which its next invocation begins.

    A run whose next event is no such mark had left the worker's hands just before.
    """
    found = []
    for loss in losses:
        for run_id in loss.run_ids:
            after = next((seen for seen in streams.get(run_id, ()) if seen.time > loss.at), None)
            if after is not None and after.kind in MARKS:
                found.append(after.time - loss.at)
    return found


def resumes(resumptions: Iterable[Resumption], streams: Mapping[str, Sequence[Seen]]) -> list[float]:
    """Return how long each run that a decision set going took to its next event."""
    found = []
    for each in resumptions:
        marks = (seen for seen in streams.get(each.run_id, ()) if seen.time >= each.sent and seen.kind in MARKS)
        first = next(marks, None)
        if first is not None:
            found.append(first.time - each.sent)
    return found


def _sentence(*parts: str) -> str:
    return ", ".join(parts)


def _counted(counts: Mapping[str, int], names: Sequence[str]) -> str:
    return ", ".join(f"{name} {counts.get(name, 0)}" for name in names)


def _spread(figures: Spread, what: str) -> str:
    if figures.p50 is None or figures.p99 is None:
        return f"none measured ({what})"
    return f"p50 {figures.p50:.2f} s, p99 {figures.p99:.2f} s ({what}; n={figures.count})"


def _spread_json(figures: Spread) -> dict[str, Any]:
    rounded = [None if value is None else round(value, 3) for value in (figures.p50, figures.p99)]
    return {"count": figures.count, "p50": rounded[0], "p99": rounded[1]}
