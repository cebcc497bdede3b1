"""What a preflight found, counted and kept within bounds."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from turnfleet_worker.preflight.verdicts import Finding, Verdict, Word

MOST_LISTED: Final = 1_000
"""So many runs are listed by name; all are counted."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason that several runs may share."""

    kind: str
    about: str
    breaks: bool


@dataclass(slots=True)
class Report:
    """The runs that were looked at, by verdict and by cause; those that do not simply go on, by name."""

    words: Counter[Word] = field(default_factory=Counter)
    causes: Counter[Cause] = field(default_factory=Counter)
    examples: dict[Cause, Finding] = field(default_factory=dict)
    listed: list[Verdict] = field(default_factory=list)
    fleet: list[str] = field(default_factory=list)
    """What is wrong with the fleet as a whole, one sentence each."""

    def take(self, verdict: Verdict) -> None:
        """Count a run."""
        self.words[verdict.word] += 1
        for cause, finding in {Cause(each.kind, each.about, each.breaks): each for each in verdict.findings}.items():
            self.causes[cause] += 1
            self.examples.setdefault(cause, finding)
        if verdict.findings and len(self.listed) < MOST_LISTED:
            self.listed.append(verdict)

    @property
    def looked_at(self) -> int:
        """How many runs were looked at."""
        return self.words.total()

    def passes(self, *, strict: bool) -> bool:
        """Say whether the build may be rolled out; `strict` counts runs that go on differently, too."""
        return not self.fleet and not self.words["breaks"] and not (strict and self.words["changed"])

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON. `left_out`: runs with findings that are counted but not listed."""
        return {
            "looked_at": self.looked_at,
            "goes_on": self.words["goes on"],
            "changed": self.words["changed"],
            "breaks": self.words["breaks"],
            "fleet": list(self.fleet),
            "causes": [
                {
                    "kind": cause.kind,
                    "about": cause.about,
                    "breaks": cause.breaks,
                    "runs": runs,
                    "example": self.examples[cause].text,
                }
                for cause, runs in self.causes.most_common()
            ],
            "runs": [verdict.to_json() for verdict in self.listed],
            "left_out": self.words["breaks"] + self.words["changed"] - len(self.listed),
        }
