"""What a diagnosis says: one finding for each thing that was looked at."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How bad it is, best first. `UNKNOWN`: it could not be looked at. `PROBLEM`: runs stand still, or may be lost."""

    OK = "ok"
    UNKNOWN = "unknown"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was looked at (a stable name), how bad it is, what was seen, and what to do about it.

    No text holds a URL, a password, a prompt or an argument.
    """

    check: str
    severity: Severity
    seen: str
    advice: str = ""


def ok(check: str, seen: str) -> Finding:
    """Return a finding that all is well."""
    return Finding(check, Severity.OK, seen)


def unknown(check: str, seen: str, advice: str) -> Finding:
    """Return a finding that it could not be looked at."""
    return Finding(check, Severity.UNKNOWN, seen, advice)


def warning(check: str, seen: str, advice: str) -> Finding:
    """Return a finding of what may become a problem."""
    return Finding(check, Severity.WARNING, seen, advice)


def problem(check: str, seen: str, advice: str) -> Finding:
    """Return a finding of what stops runs, or may lose them."""
    return Finding(check, Severity.PROBLEM, seen, advice)


def worst(findings: Iterable[Finding]) -> Severity:
    """Return the highest severity; `OK` when there is no finding."""
    order = list(Severity)
    return max((finding.severity for finding in findings), key=order.index, default=Severity.OK)
