"""What the agent can do, as plain functions: they read the files again rather than trust numbers from the model.

Each returns JSON: amounts as text with two decimals, since a float cannot carry money. Each raises a ValueError whose
text the model can act on.
"""

import tempfile
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from turnfleet_worker.demo import books, report
from turnfleet_worker.demo.ledger import Ledger, WriteOff
from turnfleet_worker.demo.matching import reconcile
from turnfleet_worker.demo.money import CENT, shown
from turnfleet_worker.demo.reconciliation import Reconciliation

MAX_PROBLEMS = 20
MAX_MISMATCHES = 100
MAX_PROPOSALS = 50


def read_invoices(path: str) -> dict[str, Any]:
    """Read a CSV file of invoices: how many, their sum, the columns understood, and the lines that were not."""
    return _summary(books.read_invoices(Path(path)))


def read_payments(path: str) -> dict[str, Any]:
    """Read a CSV file of bank payments: how many, their sum, the columns understood, and the lines that were not."""
    return _summary(books.read_payments(Path(path)))


def match(invoices: str, payments: str, *, ledger: Ledger, run_id: str) -> dict[str, Any]:
    """Match payments with invoices: counts, sums, mismatches (at most 100), proposed write-offs (at most 50)."""
    owed, _, result = _reconciled(invoices, payments, ledger, run_id)
    mismatches = _mismatches(result)
    return {
        "currency": owed.currency,
        "counts": result.counts(),
        "totals": {name: shown(amount) for name, amount in report.totals(result).items()},
        "mismatches": mismatches[:MAX_MISMATCHES],
        "more_mismatches": max(len(mismatches) - MAX_MISMATCHES, 0),
        "proposed_write_offs": [
            {"invoice": item.invoice, "amount": shown(item.amount), "reason": item.reason}
            for item in result.proposals[:MAX_PROPOSALS]
        ],
        "more_proposals": max(len(result.proposals) - MAX_PROPOSALS, 0),
    }


def write_off(
    invoice: str, amount: Decimal, reason: str, *, ledger: Ledger, run_id: str, call_id: str
) -> dict[str, Any]:
    """Record a write-off under this call's key; ValueError for a bad amount, or an invoice written off before."""
    if not amount.is_finite() or amount <= 0 or amount != amount.quantize(CENT):
        raise ValueError(f"{amount} cannot be written off: give an amount above zero, in whole cents")
    if not invoice.strip():
        raise ValueError("no invoice named: give its number as match_payments gave it")
    entry = ledger.record(WriteOff(f"{run_id}/{call_id}", run_id, invoice.strip(), amount, " ".join(reason.split())))
    return {"invoice": entry.invoice, "written_off": shown(entry.amount), "ledger": str(ledger.path)}


def needs_approval(arguments: Mapping[str, Any], limit: Decimal) -> bool:
    """Whether a person decides on this write-off: its amount is above the limit, or cannot be read as one."""
    try:
        amount = Decimal(str(arguments["amount"]))
    except (KeyError, InvalidOperation):
        return True
    return not amount.is_finite() or amount > limit


def write_report(
    invoices: str,
    payments: str,
    path: str,
    declined: Sequence[tuple[str, Decimal, str]],
    *,
    ledger: Ledger,
    run_id: str,
) -> dict[str, Any]:
    """Write the report; ValueError when `path` is a file that is no earlier report, or cannot be written."""
    owed, paid, result = _reconciled(invoices, payments, ledger, run_id)
    written_off = ledger.of_run(run_id)
    text = report.render(owed, paid, result, written_off=written_off, declined=declined, run_id=run_id)
    _replace(Path(path), text)
    return {
        "report": path,
        "written_off": len(written_off),
        "written_off_sum": shown(sum((entry.amount for entry in written_off), Decimal(0))),
        "not_written_off": len(declined),
        "lines_to_look_at": len(owed.problems) + len(paid.problems),
    }


def is_ours(path: Path) -> bool:
    """Whether a report may be written to this path: nothing is there, or an earlier report is."""
    return not path.exists() or path.read_bytes().startswith(report.TITLE.encode())


def _reconciled(
    invoices: str, payments: str, ledger: Ledger, run_id: str
) -> tuple[books.Books[books.Invoice], books.Books[books.Payment], Reconciliation]:
    owed, paid = books.read_invoices(Path(invoices)), books.read_payments(Path(payments))
    if owed.currency and paid.currency and owed.currency != paid.currency:
        raise ValueError(
            f"{owed.file} is in {owed.currency} and {paid.file} in {paid.currency}: amounts of two currencies cannot "
            "be matched"
        )
    return owed, paid, reconcile(owed.entries, paid.entries, ledger.before(run_id))


def _summary(found: books.Books[Any]) -> dict[str, Any]:
    return {
        "file": found.file,
        "rows": len(found.entries),
        "sum": shown(sum((entry.amount for entry in found.entries), Decimal(0))),
        "currency": found.currency,
        "columns": list(found.headers),
        "problems": [str(problem) for problem in found.problems[:MAX_PROBLEMS]],
        "more_problems": max(len(found.problems) - MAX_PROBLEMS, 0),
    }


def _mismatches(result: Reconciliation) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {
            "kind": item.state,
            "invoice": item.invoice.number,
            "amount": shown(item.surplus if item.state == "overpaid" else item.open),
        }
        for item in result.settlements
        if item.state in {"underpaid", "unpaid", "overpaid"}
    ]
    found += [
        {"kind": f"{item.kind} payment", "line": item.payment.line, "amount": shown(item.amount), "note": item.note}
        for item in result.surpluses
        if item.kind != "overpaid"
    ]
    return found


def _replace(path: Path, text: str) -> None:
    """Put the text in the file in one step; a reader sees the old report or the new one."""
    try:
        if not is_ours(path):
            raise ValueError(f"{path} exists and is no report of this job: give another path, nothing was overwritten")
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as file:
            file.write(text)
        Path(file.name).chmod(0o644)
        Path(file.name).replace(path)
    except OSError as error:
        raise ValueError(f"the report cannot be written to {path}: {error.strerror or error}") from error
