"""The job as a run sees it: its plan, its prompt, and the settings that belong to whoever runs the worker.

The limit above which a person is asked, and the place of the ledger, are the worker's. Neither the model nor the
prompt can move them.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path

from turnfleet_kernel.contracts.limits import PlanLimits
from turnfleet_kernel.contracts.spec import PlanSpec

RULES = "rules"
TOOLS = ("read_invoices", "read_payments", "match_payments", "write_off", "write_report")
DEFAULT_LIMIT = Decimal("25.00")
LIMIT_VARIABLE = "TURNFLEET_DEMO_LIMIT"
MODEL_VARIABLE = "TURNFLEET_DEMO_MODEL"
LEDGER_VARIABLE = "TURNFLEET_DEMO_LEDGER"
SAMPLE = Path(__file__).parent / "sample"
INSTRUCTIONS = """\
You reconcile invoices with bank payments. The user's message names the files.
1. Call read_invoices and read_payments, then match_payments.
2. Call write_off once for each proposed write-off, with the amount and the reason as proposed. Do not invent others.
3. Call write_report; list under declined what was proposed and not written off, with the reason you were given.
4. Answer with a short summary. If a file cannot be read, say so and stop.
"""
FIELDS = ("invoices", "payments", "report")


@dataclass(frozen=True, slots=True)
class Settings:
    """What a worker of the demo is told by its environment."""

    limit: Decimal = DEFAULT_LIMIT
    ledger: Path = Path("write-offs.csv")
    model: str | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Settings":
        """Read the variables of the names above; ValueError for a limit that is none."""
        return cls(
            limit=parse_limit(environment.get(LIMIT_VARIABLE, str(DEFAULT_LIMIT))),
            ledger=Path(environment.get(LEDGER_VARIABLE, "write-offs.csv")),
            model=environment.get(MODEL_VARIABLE) or None,
        )


def parse_limit(text: str) -> Decimal:
    """Return a limit from text such as `25` or `25.00`; ValueError when it is no amount of zero or more."""
    try:
        limit = Decimal(text)
    except InvalidOperation:
        limit = Decimal(-1)
    if not limit.is_finite() or limit < 0:
        raise ValueError(f"{text!r} is no limit: give an amount such as 25 or 25.00")
    return limit


def plan(model: str = RULES) -> PlanSpec:
    """Return the demo's plan, with the rule-driven model or any model name that the worker knows."""
    return PlanSpec(
        name="reconcile",
        instructions=INSTRUCTIONS,
        model=model,
        tools=TOOLS,
        limits=PlanLimits(max_model_rounds=20),
    )


def prompt(invoices: Path, payments: Path, report: Path) -> str:
    """Return the message that starts a run: what to do, and the absolute paths, one a line."""
    return (
        "Reconcile the invoices with the bank payments and write a report.\n"
        f"invoices: {invoices.resolve()}\npayments: {payments.resolve()}\nreport: {report.resolve()}\n"
    )


def parse_prompt(text: str) -> dict[str, str]:
    """Return the paths that a prompt names, by field; those it does not name are missing."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        field, colon, value = line.partition(":")
        if colon and field.strip().casefold() in FIELDS and value.strip():
            found[field.strip().casefold()] = value.strip()
    return found
