"""What is said of a run: frozen values, no input or output."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Kind: TypeAlias = Literal[
    "signature", "missing", "plan", "plan id", "request", "journal", "transcript", "decision", "arguments", "schema",
    "delegate", "stage", "response", "run",
]  # fmt: skip
"""Why a run would break, or go on differently:

- signature: the run, or a decision on it, is not signed with a key that the build has
- missing: the plan (or a delegate's) names a model, tool, stage or delegate that the build does not have
- plan: the recorded plan does not read here, or cannot be bound
- plan id: the recorded plan reads as another plan than its id names
- request: the recorded request does not read here
- journal: an entry is unknown to this build, or makes no sense to it
- transcript: the conversation port does not load what was recorded
- decision: what a person decided, or what is decided on expiry, does not fit any more
- arguments: a call that was asked for does not fit the tool as it is now
- schema: a tool's schema is another than the one that a person was shown with a call
- delegate: a delegated run cannot go on; its work would be lost
- stage: a stage refuses, or does not come back
- response: the recorded answer does not give the output that the plan asks for
- run: it fails in another way
"""

Word: TypeAlias = Literal["goes on", "changed", "breaks"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it was. `about` names what it concerns: a tool, a stage, an interrupt's kind.

    `breaks`: the run would fail, be parked, or not do what a person was asked about. Otherwise it goes on, but not as
    it would have: its model is told of an error, or a later decision may be refused.
    """

    kind: Kind
    about: str
    text: str
    breaks: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a build would do with a run. `next` says what it would do first that is not recorded; empty if it breaks.

    No prompt, no argument and no answer is in any text of it.
    """

    run_id: str
    state: str
    plan_name: str
    plan_id: str
    tenant: str | None
    next: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def word(self) -> Word:
        """The verdict in a word."""
        if any(finding.breaks for finding in self.findings):
            return "breaks"
        return "changed" if self.findings else "goes on"

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "run_id": self.run_id,
            "state": self.state,
            "plan_name": self.plan_name,
            "plan_id": self.plan_id,
            "tenant": self.tenant,
            "verdict": self.word,
            "next": list(self.next),
            "findings": [
                {"kind": each.kind, "about": each.about, "text": each.text, "breaks": each.breaks}
                for each in self.findings
            ],
        }
