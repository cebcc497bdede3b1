"""Invoices and payments, as read from their files; a line that is neither is reported, never guessed at."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Generic, TypeVar

from turnfleet_worker.demo.money import AmountStyle, DateStyle
from turnfleet_worker.demo.tables import Columns, Problem, Row, Table, read_table

INVOICE_COLUMNS = Columns(
    names={
        "number": (
            "invoice number", "invoice no", "invoice id", "invoice", "number", "document number", "document", "no",
            "nr", "id", "rechnungsnummer", "rechnung", "facture", "reference", "ref",
        ),
        "amount": ("amount due", "total due", "gross amount", "amount", "total", "gross", "sum", "value", "betrag"),
        "due": ("due date", "due", "payable by", "faellig", "date due", "invoice date", "date", "issued", "datum"),
        "customer": ("customer name", "customer", "client", "debtor", "company", "buyer", "name", "kunde"),
        "currency": ("currency", "ccy", "curr"),
    },
    required=(("number",), ("amount",)),
)  # fmt: skip
PAYMENT_COLUMNS = Columns(
    names={
        "reference": ("reference", "payment reference", "end to end reference", "ref", "invoice number", "invoice"),
        "memo": (
            "memo", "remittance information", "remittance", "details", "purpose", "narrative", "message", "text",
            "verwendungszweck", "description", "note", "subject",
        ),
        "amount": ("amount", "value", "total", "sum", "betrag"),
        "credit": ("credit", "paid in", "money in", "deposit"),
        "debit": ("debit", "paid out", "money out", "withdrawal"),
        "date": ("booking date", "value date", "transaction date", "payment date", "date", "booked", "datum"),
        "payer": ("payer", "payer name", "counterparty", "from", "name", "customer", "sender", "party"),
        "currency": ("currency", "ccy", "curr"),
    },
    required=(("amount", "credit"),),
)  # fmt: skip

TOTALS = {"total", "totals", "sum", "subtotal", "grand total", "summe", "balance"}
OUTGOING = {"d", "dr", "debit", "dbit"}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Invoice:
    """Money that a customer owes; a negative amount is a credit note. `line` is its place in the file."""

    number: str
    amount: Decimal
    due: date | None = None
    customer: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Payment:
    """Money on the bank's statement; a negative amount left the account. `line` is its place in the file."""

    text: str
    amount: Decimal
    booked: date | None = None
    payer: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Books(Generic[T]):
    """What one file holds: its entries in file order, its currency ("" when it names none), the lines left out."""

    file: str
    entries: tuple[T, ...]
    currency: str
    problems: tuple[Problem, ...]
    headers: tuple[str, ...]


def read_invoices(path: Path) -> Books[Invoice]:
    """Read a file of invoices; `UnreadableFileError` when it is no table of any."""
    table = read_table(path, INVOICE_COLUMNS)
    reader = _Reader(table)
    invoices: list[Invoice] = []
    first_line: dict[str, int] = {}
    for row in table.rows:
        number = row.cells["number"]
        amount = reader.amount(row)
        if amount is None:
            continue
        if not number:
            reader.leave_out(row, "no invoice number")
        elif number.casefold() in TOTALS:
            reader.leave_out(row, "a total, not an invoice")
        elif key(number) in first_line:
            reader.leave_out(row, f"invoice {number} stands on line {first_line[key(number)]} already")
        else:
            first_line[key(number)] = row.line
            customer = row.cells.get("customer", "")
            invoices.append(Invoice(number, amount, reader.date(row, "due"), customer, row.line))
    return reader.books(invoices)


def read_payments(path: Path) -> Books[Payment]:
    """Read a bank statement; `UnreadableFileError` when it is none."""
    table = read_table(path, PAYMENT_COLUMNS)
    reader = _Reader(table)
    payments: list[Payment] = []
    for row in table.rows:
        text = " ".join(cell for field in ("reference", "memo") if (cell := row.cells.get(field, "")))
        amount = reader.amount(row)
        if amount is None:
            continue
        if text.casefold() in TOTALS:
            reader.leave_out(row, "a total, not a payment")
        else:
            payments.append(Payment(text, amount, reader.date(row, "date"), row.cells.get("payer", ""), row.line))
    return reader.books(payments)


def key(text: str) -> str:
    """Return what makes an invoice number itself: its letters and digits, without case, spaces or punctuation."""
    return "".join(character for character in text.casefold() if character.isalnum())


class _Reader:
    """Reads the cells of one table, and collects what was left out and why."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._problems = list(table.problems)
        money = [cell for field in ("amount", "credit", "debit") for cell in table.column(field)]
        self._amounts = AmountStyle.of(money)
        self._dates = {field: DateStyle.of(table.column(field)) for field in ("due", "date")}
        named = Counter(cell.upper() for cell in table.column("currency"))
        # One currency a file: amounts of two cannot be added up. The most frequent one wins, the first when equal.
        self.currency = named.most_common(1)[0][0] if named else ""

    def leave_out(self, row: Row, reason: str) -> None:
        self._problems.append(Problem(self._table.file, row.line, reason))

    def amount(self, row: Row) -> Decimal | None:
        """Return the row's amount, or None when the row was left out."""
        currency = row.cells.get("currency", "").upper()
        if currency and currency != self.currency:
            self.leave_out(row, f"in {currency}, and this file is in {self.currency}")
            return None
        try:
            amount = self._amount(row)
        except ValueError as error:
            self.leave_out(row, str(error))
            return None
        if amount is None:
            self.leave_out(row, "no amount")
        return amount

    def _amount(self, row: Row) -> Decimal | None:
        cell, credit, debit = (row.cells.get(field, "") for field in ("amount", "credit", "debit"))
        if cell:
            amount = self._amounts.read(cell)
            left = {credit.casefold(), debit.casefold()} & OUTGOING
            return -abs(amount) if left else amount
        if not credit and not debit:
            return None
        into = self._amounts.read(credit) if credit else Decimal(0)
        out = abs(self._amounts.read(debit)) if debit else Decimal(0)
        return into - out

    def date(self, row: Row, field: str) -> date | None:
        """Return the row's date; one that cannot be read is reported, and the money counts all the same."""
        try:
            return self._dates[field].read(row.cells.get(field, ""))
        except ValueError as error:
            self.leave_out(row, f"{error}; the row counts without it")
            return None

    def books(self, entries: Sequence[T]) -> Books[T]:
        problems = tuple(sorted(self._problems, key=lambda problem: problem.line))
        headers = tuple(self._table.headers.values())
        return Books(self._table.file, tuple(entries), self.currency, problems, headers)
