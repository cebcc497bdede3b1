"""Which payment settles which invoice: a pure function of both lists, and every cent has one place in its result.

By reference first, since a customer who names an invoice means it; then by amount, date and name, only where that
leaves one answer. What is left over says what it is: a duplicate, too much, unknown, or money that went out.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Literal

from turnfleet_worker.demo.books import Invoice, Payment, key
from turnfleet_worker.demo.money import CENT
from turnfleet_worker.demo.reconciliation import (
    Allocation,
    InvoiceState,
    Proposal,
    Reconciliation,
    Settlement,
    Surplus,
    SurplusKind,
)

SMALL_SHARE = Decimal("0.10")
TAIL_DIGITS = 3
MIN_KEY = 3
NAME_START = 3
MAX_TOKENS = 8
NEAR_DAYS = 120
DUPLICATE_DAYS = 14


def reconcile(
    invoices: Sequence[Invoice], payments: Sequence[Payment], written_off: Mapping[str, Decimal] | None = None
) -> Reconciliation:
    """Match payments with invoices; `written_off` is what earlier runs wrote off, by invoice number."""
    ledger = _Matching(invoices, written_off or {})
    ordered = sorted(payments, key=lambda payment: (payment.booked or date.max, payment.line))
    rest: list[Payment] = []
    for payment in ordered:
        named = ledger.named_in(payment) if payment.amount > 0 else []
        if payment.amount <= 0:
            ledger.set_aside(payment, payment.amount, "outgoing")
        elif named:
            ledger.settle_named(payment, named)
        else:
            rest.append(payment)
    for payment in rest:
        ledger.settle_unnamed(payment)
    return ledger.result()


@dataclass(slots=True)
class _Account:
    invoice: Invoice
    open: Decimal
    payments: list[Payment] = field(default_factory=list)


class _Matching:
    """The state of one matching: what each invoice still wants."""

    def __init__(self, invoices: Sequence[Invoice], written_off: Mapping[str, Decimal]) -> None:
        self._written_off = {
            invoice.number: max(min(written_off.get(invoice.number, Decimal(0)), invoice.amount), Decimal(0))
            for invoice in invoices
        }
        self._accounts = [
            _Account(invoice, max(invoice.amount, Decimal(0)) - self._written_off[invoice.number])
            for invoice in invoices
        ]
        self._by_key = {key(account.invoice.number): account for account in self._accounts}
        self._by_tail: dict[str, list[_Account]] = defaultdict(list)
        for account in self._accounts:
            self._by_tail[_tail(account.invoice.number)].append(account)
        self._by_amount: dict[Decimal, list[_Account]] = defaultdict(list)
        self._by_name: dict[str, list[_Account]] = defaultdict(list)
        for account in self._accounts:
            self._by_amount[account.open].append(account)
            self._by_name[_name_key(account.invoice.customer)].append(account)
        self._by_twin: dict[tuple[Decimal, str, str], list[Payment]] = defaultdict(list)
        self._allocations: list[Allocation] = []
        self._surpluses: list[Surplus] = []

    def named_in(self, payment: Payment) -> list[_Account]:
        """Return the invoices that the payment's text names, in the order of naming."""
        tokens = re.findall(r"[^\W\d_]+|\d+", payment.text.casefold())
        found: dict[int, _Account] = {}
        start = 0
        while start < len(tokens):
            account, end = self._named_at(tokens, start)
            # A short number such as "7" may be a number of anything: then the amount must agree as well.
            if account is not None and (
                len(key(account.invoice.number)) >= MIN_KEY
                or len(tokens) == end - start
                or account.invoice.amount == payment.amount
            ):
                found.setdefault(id(account), account)
            start = end
        if not found:
            # Only the digits of a number ("1007" for INV-1007) say less: the amount must agree as well.
            for token in tokens:
                owners = self._by_tail.get(token.lstrip("0"), []) if len(token) >= TAIL_DIGITS else []
                if len(owners) == 1 and owners[0].invoice.amount == payment.amount:
                    found.setdefault(id(owners[0]), owners[0])
        return list(found.values())

    def _named_at(self, tokens: Sequence[str], start: int) -> tuple[_Account | None, int]:
        """Return the invoice whose number begins at `start`, the longest number first, and where to look next."""
        for end in range(min(len(tokens), start + MAX_TOKENS), start, -1):
            account = self._by_key.get("".join(tokens[start:end]))
            if account is not None:
                return account, end
        return None, start + 1

    def settle_named(self, payment: Payment, named: Sequence[_Account]) -> None:
        left = payment.amount
        for account in named:
            left -= self._allocate(account, payment, min(left, account.open), "reference")
        if not left:
            return
        last = named[-1]
        twin = next(
            (made for made in last.payments if _twin_key(made) == _twin_key(payment) and _is_near(made, payment)), None
        )
        if left == payment.amount and twin is not None:
            self.set_aside(payment, left, "duplicate", last.invoice, f"the same as line {twin.line}")
        else:
            self.set_aside(payment, left, "overpaid", last.invoice)

    def settle_unnamed(self, payment: Payment) -> None:
        exact = [account for account in self._by_amount[payment.amount] if not account.payments]
        candidates = self._same_name(exact, payment) or exact
        nearest = _nearest(candidates, payment)
        if len(nearest) == 1:
            self._allocate(nearest[0], payment, payment.amount, "amount")
            return
        if len(nearest) > 1:
            numbers = ", ".join(account.invoice.number for account in nearest[:4])
            self.set_aside(payment, payment.amount, "unknown", note=f"could be any of {numbers}")
            return
        twin = next((earlier for earlier in self._by_twin[_twin_key(payment)] if _is_near(earlier, payment)), None)
        if twin is not None and (payment.text or payment.payer):
            self.set_aside(payment, payment.amount, "duplicate", note=f"the same as line {twin.line}")
            return
        short = [
            account
            for account in self._same_name(self._by_name[_name_key(payment.payer)], payment)
            if not account.payments and _is_small(account.open - payment.amount, account.invoice)
        ]
        if len(short) == 1:
            self._allocate(short[0], payment, payment.amount, "name")
            return
        self.set_aside(payment, payment.amount, "unknown")

    def _same_name(self, accounts: Iterable[_Account], payment: Payment) -> list[_Account]:
        payer = key(payment.payer)
        if not _name_key(payer):
            return []
        return [
            account
            for account in accounts
            if _name_key(customer := key(account.invoice.customer))
            and (customer.startswith(payer) or payer.startswith(customer))
        ]

    def set_aside(
        self, payment: Payment, amount: Decimal, kind: SurplusKind, invoice: Invoice | None = None, note: str = ""
    ) -> None:
        self._surpluses.append(Surplus(payment, amount, kind, invoice, note))

    def _allocate(
        self, account: _Account, payment: Payment, amount: Decimal, by: Literal["reference", "amount", "name"]
    ) -> Decimal:
        if amount > 0:
            account.open -= amount
            account.payments.append(payment)
            self._by_twin[_twin_key(payment)].append(payment)
            self._allocations.append(Allocation(account.invoice, payment, amount, by))
        return amount

    def result(self) -> Reconciliation:
        surplus: dict[str, Decimal] = defaultdict(Decimal)
        for item in self._surpluses:
            if item.kind == "overpaid" and item.invoice is not None:
                surplus[item.invoice.number] += item.amount
        settlements = tuple(self._settlement(account, surplus[account.invoice.number]) for account in self._accounts)
        return Reconciliation(
            settlements,
            tuple(self._allocations),
            tuple(self._surpluses),
            tuple(_proposals(settlements)),
        )

    def _settlement(self, account: _Account, surplus: Decimal) -> Settlement:
        invoice, written_off = account.invoice, self._written_off[account.invoice.number]
        if invoice.amount < 0:
            return Settlement(invoice, "credit note", Decimal(0), invoice.amount)
        state: InvoiceState = "unpaid"
        if surplus:
            state = "overpaid"
        elif not account.open:
            state = "matched"
        elif account.payments:
            state = "underpaid"
        return Settlement(
            invoice, state, invoice.amount - written_off - account.open, account.open, written_off, surplus
        )


def _proposals(settlements: Iterable[Settlement]) -> Iterable[Proposal]:
    for settlement in settlements:
        if settlement.state == "underpaid" and _is_small(settlement.open, settlement.invoice):
            share = (settlement.open / settlement.invoice.amount * 100).quantize(CENT)
            reason = f"paid {settlement.paid:.2f} of {settlement.invoice.amount:.2f}, {share}% short"
            yield Proposal(settlement.invoice.number, settlement.open, reason)


def _is_small(difference: Decimal, invoice: Invoice) -> bool:
    return 0 < difference <= invoice.amount * SMALL_SHARE


def _twin_key(payment: Payment) -> tuple[Decimal, str, str]:
    return payment.amount, key(payment.text), key(payment.payer)


def _is_near(first: Payment, second: Payment) -> bool:
    return first.booked is None or second.booked is None or abs((second.booked - first.booked).days) <= DUPLICATE_DAYS


def _name_key(name: str) -> str:
    """Return the start of a name, under which those are kept that may be the same; too short a one says nothing."""
    start = key(name)[:NAME_START]
    return start if len(start) == NAME_START else ""


def _nearest(accounts: Sequence[_Account], payment: Payment) -> list[_Account]:
    """Return the accounts due nearest to the payment; those without a date are as near as the furthest allowed."""
    if payment.booked is None:
        return list(accounts)

    def days(account: _Account) -> int:
        due = account.invoice.due
        return NEAR_DAYS if due is None or payment.booked is None else abs((payment.booked - due).days)

    near = [account for account in accounts if days(account) <= NEAR_DAYS]
    return [account for account in near if days(account) == min(map(days, near))]


def _tail(number: str) -> str:
    digits = re.findall(r"\d+", number)
    return digits[-1].lstrip("0") if digits else ""
