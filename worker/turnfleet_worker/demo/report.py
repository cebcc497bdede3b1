"""The report as Markdown: totals that add up, what does not match, what was written off, and what could not be read."""

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any

from turnfleet_worker.demo.books import Books, Invoice, Payment
from turnfleet_worker.demo.ledger import WriteOff
from turnfleet_worker.demo.money import shown
from turnfleet_worker.demo.reconciliation import Reconciliation, Settlement

TITLE = "# Reconciliation of invoices and payments"
ZERO = Decimal(0)


def totals(result: Reconciliation) -> dict[str, Decimal]:
    """Return the sums that the report proves itself with.

    `invoiced` = `settled` + `written off before` + `still open` + `credit notes`;
    `on the statement` = `settled` + `overpaid` + `duplicates` + `unknown` + `outgoing`.
    """
    credit_notes = [item for item in result.settlements if item.state == "credit note"]
    surplus = {kind: _sum(item.amount for item in result.surpluses if item.kind == kind) for kind in _SURPLUS_NAMES}
    settled = _sum(item.amount for item in result.allocations)
    owed = [item for item in result.settlements if item.state != "credit note"]
    return {
        "invoiced": _sum(item.invoice.amount for item in result.settlements),
        "settled": settled,
        "written off before": _sum(item.written_off for item in owed),
        "still open": _sum(item.open for item in owed),
        "credit notes": _sum(item.open for item in credit_notes),
        "on the statement": settled + _sum(surplus.values()),
        **{_SURPLUS_NAMES[kind]: amount for kind, amount in surplus.items()},
    }


def render(
    invoices: Books[Invoice],
    payments: Books[Payment],
    result: Reconciliation,
    *,
    written_off: Sequence[WriteOff],
    declined: Sequence[tuple[str, Decimal, str]],
    run_id: str,
) -> str:
    """Return the report. `declined` holds (invoice, amount, why) of the write-offs that were proposed and not made."""
    currency = f" {invoices.currency}" if invoices.currency else ""
    sums = totals(result)
    now = _sum(entry.amount for entry in written_off)
    parts = [
        TITLE,
        f"{_read(invoices, 'invoices')}, {_read(payments, 'payments')}, in run {run_id}.",
        "## Totals",
        _table(
            ("What", f"Amount{currency}"),
            [
                ("Invoiced", shown(sums["invoiced"])),
                ("settled by payments", shown(sums["settled"])),
                ("written off in earlier runs", shown(sums["written off before"])),
                ("written off in this run", shown(now)),
                ("still open", shown(sums["still open"] - now)),
                ("credit notes", shown(sums["credit notes"])),
                ("On the statement", shown(sums["on the statement"])),
                *((name, shown(sums[name])) for name in _SURPLUS_NAMES.values()),
            ],
        ),
        *_section("Underpaid", result, _in_state("underpaid"), _OWED),
        *_section("Unpaid", result, _in_state("unpaid"), _OWED),
        *_section("Overpaid", result, _in_state("overpaid"), _PAID_TOO_MUCH),
        *_surpluses(result),
        *_written_off(written_off, declined),
        *_section("Matched", result, _in_state("matched"), _PAID),
        *_section("Credit notes", result, _in_state("credit note"), _PAID),
    ]
    problems = [*invoices.problems, *payments.problems]
    if problems:
        parts += ["## Lines that need a look", "\n".join(f"- {_text(str(problem))}" for problem in problems)]
    return "\n\n".join(parts) + "\n"


_SURPLUS_NAMES = {"overpaid": "overpaid", "duplicate": "duplicates", "unknown": "unknown", "outgoing": "outgoing"}

_Cells = Callable[[Settlement], tuple[str, ...]]
_OWED: tuple[tuple[str, ...], _Cells] = (
    ("Invoice", "Customer", "Due", "Amount", "Paid", "Short"),
    lambda item: (*_who(item), shown(item.invoice.amount), shown(item.paid), shown(item.open)),
)
_PAID_TOO_MUCH: tuple[tuple[str, ...], _Cells] = (
    ("Invoice", "Customer", "Due", "Amount", "Too much"),
    lambda item: (*_who(item), shown(item.invoice.amount), shown(item.surplus)),
)
_PAID: tuple[tuple[str, ...], _Cells] = (
    ("Invoice", "Customer", "Due", "Amount", "Paid"),
    lambda item: (*_who(item), shown(item.invoice.amount), shown(item.paid)),
)


def _who(item: Settlement) -> tuple[str, str, str]:
    due = item.invoice.due
    return item.invoice.number, item.invoice.customer, due.isoformat() if due else ""


def _in_state(state: str) -> Callable[[Settlement], bool]:
    return lambda item: item.state == state


def _section(
    title: str, result: Reconciliation, wanted: Callable[[Settlement], bool], columns: tuple[tuple[str, ...], _Cells]
) -> list[str]:
    header, cells = columns
    rows = [cells(item) for item in result.settlements if wanted(item)]
    return [f"## {title} ({len(rows)})", _table(header, rows)] if rows else []


def _surpluses(result: Reconciliation) -> list[str]:
    rows = [
        (str(item.payment.line), item.payment.payer, item.payment.text, shown(item.amount), item.kind, item.note)
        for item in result.surpluses
        if item.kind != "overpaid"
    ]
    header = ("Line", "Payer", "Text", "Amount", "What", "Note")
    return [f"## Payments that settle nothing ({len(rows)})", _table(header, rows)] if rows else []


def _written_off(written_off: Sequence[WriteOff], declined: Sequence[tuple[str, Decimal, str]]) -> list[str]:
    rows = [(entry.invoice, shown(entry.amount), "written off", entry.reason) for entry in written_off]
    rows += [(invoice, shown(amount), "not written off", why) for invoice, amount, why in declined]
    header = ("Invoice", "Amount", "Decision", "Reason")
    return [f"## Write-offs ({len(written_off)} made, {len(declined)} not made)", _table(header, rows)] if rows else []


def _read(books: Books[Any], what: str) -> str:
    return f"{len(books.entries)} {what} read from {_text(books.file)}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(_text(cell) for cell in line) + " |" for line in lines)


def _text(cell: str) -> str:
    """Return a cell that cannot end its table: what stands in a bank's memo is not ours."""
    return " ".join(cell.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").split())


def _sum(amounts: Iterable[Decimal]) -> Decimal:
    return sum(amounts, ZERO)
