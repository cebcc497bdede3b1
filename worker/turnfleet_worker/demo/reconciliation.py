"""What a reconciliation says: where each cent of a payment went, and what is open on each invoice."""

from collections import defaultdict
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from turnfleet_worker.demo.books import Invoice, Payment

InvoiceState = Literal["matched", "underpaid", "overpaid", "unpaid", "credit note"]
SurplusKind = Literal["overpaid", "duplicate", "unknown", "outgoing"]


@dataclass(frozen=True, slots=True)
class Allocation:
    """A part of a payment that settles a part of an invoice, and by what it was recognised."""

    invoice: Invoice
    payment: Payment
    amount: Decimal
    by: Literal["reference", "amount", "name"]


@dataclass(frozen=True, slots=True)
class Surplus:
    """A part of a payment that settles nothing. `invoice` is the one it was meant for, where that is known."""

    payment: Payment
    amount: Decimal
    kind: SurplusKind
    invoice: Invoice | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Settlement:
    """What became of one invoice. `open` is what is still owed; `written_off` is what an earlier run wrote off."""

    invoice: Invoice
    state: InvoiceState
    paid: Decimal
    open: Decimal
    written_off: Decimal = Decimal(0)
    surplus: Decimal = Decimal(0)


@dataclass(frozen=True, slots=True)
class Proposal:
    """A small difference that is not worth asking for: what to write off, and why."""

    invoice: str
    amount: Decimal
    reason: str


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The whole answer: one settlement an invoice, and each payment's cents in allocations and surpluses."""

    settlements: tuple[Settlement, ...]
    allocations: tuple[Allocation, ...]
    surpluses: tuple[Surplus, ...]
    proposals: tuple[Proposal, ...]

    def counts(self) -> dict[str, int]:
        """Return how many invoices and payments came out as what."""
        counted: dict[str, int] = defaultdict(int)
        for settlement in self.settlements:
            counted[settlement.state] += 1
        for surplus in self.surpluses:
            if surplus.kind != "overpaid":
                counted[f"{surplus.kind} payment"] += 1
        return dict(counted)
