"""Which payment settles which invoice, example by example; then: every cent has one place."""

from datetime import date, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnfleet_worker.demo.books import Invoice, Payment
from turnfleet_worker.demo.matching import reconcile
from turnfleet_worker.demo.reconciliation import Reconciliation
from turnfleet_worker.demo.report import totals

MARCH = date(2026, 3, 1)


def invoice(number: str, amount: str, customer: str = "", due: date = MARCH) -> Invoice:
    """Return an invoice due in March."""
    return Invoice(number, Decimal(amount), due, customer)


def payment(text: str, amount: str, payer: str = "", booked: date = MARCH, line: int = 0) -> Payment:
    """Return a payment of March."""
    return Payment(text, Decimal(amount), booked, payer, line)


def states(result: Reconciliation) -> dict[str, str]:
    """Return what became of each invoice."""
    return {item.invoice.number: item.state for item in result.settlements}


def surpluses(result: Reconciliation) -> list[tuple[str, Decimal]]:
    """Return what settled nothing."""
    return [(item.kind, item.amount) for item in result.surpluses]


@pytest.mark.parametrize(
    "text",
    ["INV-1001", "inv 1001", "INV1001", "Payment for INV-1001, thanks", "INV/1001.", "ref:inv_1001", "1001", "0001001"],
)
def test_a_reference_is_found_however_it_is_written(text: str) -> None:
    """Case, spaces, punctuation and words around it do not matter; its digits alone count if the amount agrees."""
    assert states(reconcile([invoice("INV-1001", "10.00")], [payment(text, "10.00")])) == {"INV-1001": "matched"}


@pytest.mark.parametrize("text", ["INV-10012", "INV-100", "XINV-1001", "41001"])
def test_a_longer_or_shorter_number_is_another_number(text: str) -> None:
    """INV-1001 is not named by INV-10012 or INV-100."""
    result = reconcile([invoice("INV-1001", "10.00")], [payment(text, "4.00")])
    assert states(result) == {"INV-1001": "unpaid"}


def test_digits_alone_do_not_count_when_the_amount_differs() -> None:
    """A year in a memo is no invoice number."""
    result = reconcile([invoice("INV-2026", "10.00")], [payment("rent 2026", "4.00")])
    assert surpluses(result) == [("unknown", Decimal("4.00"))]


def test_underpaid_by_little_proposes_a_write_off_and_by_much_does_not() -> None:
    """A difference of at most a tenth is proposed, with the amounts in the reason."""
    result = reconcile(
        [invoice("A-100", "100.00"), invoice("A-200", "100.00")], [payment("A-100", "95.00"), payment("A-200", "50.00")]
    )
    assert states(result) == {"A-100": "underpaid", "A-200": "underpaid"}
    assert [(item.invoice, item.amount, item.reason) for item in result.proposals] == [
        ("A-100", Decimal("5.00"), "paid 95.00 of 100.00, 5.00% short")
    ]


def test_overpaid_keeps_the_surplus_apart() -> None:
    """What is too much is a surplus of the invoice that was meant."""
    result = reconcile([invoice("A-100", "100.00")], [payment("A-100", "120.00")])
    assert states(result) == {"A-100": "overpaid"}
    assert surpluses(result) == [("overpaid", Decimal("20.00"))]


def test_two_instalments_settle_one_invoice() -> None:
    """Two equal payments that the invoice still wanted are no duplicates."""
    result = reconcile([invoice("A-100", "100.00")], [payment("A-100", "50.00"), payment("A-100", "50.00", line=1)])
    assert states(result) == {"A-100": "matched"}
    assert surpluses(result) == []


def test_one_payment_settles_the_invoices_it_names_in_order() -> None:
    """The first named is settled first."""
    result = reconcile(
        [invoice("A-100", "100.00"), invoice("A-200", "40.00")], [payment("for A-200 and A-100", "135.00")]
    )
    assert states(result) == {"A-200": "matched", "A-100": "underpaid"}


def test_the_same_payment_again_is_a_duplicate_and_a_late_one_is_too_much() -> None:
    """Same reference, payer and amount within two weeks is a duplicate; months later it is just too much."""
    paid = [payment("A-100", "100.00", "Acme"), payment("A-100", "100.00", "Acme", MARCH + timedelta(days=1), 1)]
    again = reconcile([invoice("A-100", "100.00")], paid)
    late = reconcile(
        [invoice("A-100", "100.00")],
        [paid[0], payment("A-100", "100.00", "Acme", MARCH + timedelta(days=60), 1)],
    )
    assert surpluses(again) == [("duplicate", Decimal("100.00"))]
    assert surpluses(late) == [("overpaid", Decimal("100.00"))]


def test_the_earlier_payment_settles_wherever_it_stands_in_the_statement() -> None:
    """Statements are sorted either way: the later one of two equal payments is the duplicate."""
    later = payment("A-100", "100.00", "Acme", MARCH + timedelta(days=1), line=2)
    earlier = payment("A-100", "100.00", "Acme", MARCH, line=3)
    result = reconcile([invoice("A-100", "100.00")], [later, earlier])
    assert [(item.payment, item.note) for item in result.surpluses] == [(later, "the same as line 3")]


def test_without_a_reference_amount_name_and_date_decide() -> None:
    """The customer's name goes before the nearest due date."""
    owed = [
        invoice("A-100", "100.00", "Acme Ltd", MARCH),
        invoice("A-200", "100.00", "Birch & Co", MARCH + timedelta(days=30)),
    ]
    assert states(reconcile(owed, [payment("march", "100.00", "BIRCH & CO LONDON")])) == {
        "A-100": "unpaid",
        "A-200": "matched",
    }
    assert states(reconcile(owed, [payment("march", "100.00", "J. Doe", MARCH + timedelta(days=28))])) == {
        "A-100": "unpaid",
        "A-200": "matched",
    }


def test_an_ambiguous_payment_stays_unknown_and_says_between_what() -> None:
    """Two invoices that fit equally well are not tossed a coin for."""
    result = reconcile([invoice("A-100", "100.00"), invoice("A-200", "100.00")], [payment("march", "100.00")])
    assert [item.note for item in result.surpluses] == ["could be any of A-100, A-200"]


def test_a_known_payer_a_little_short_is_recognised() -> None:
    """Bank charges taken off, and no reference: the only open invoice of that customer is meant."""
    result = reconcile([invoice("A-100", "100.00", "Acme Ltd")], [payment("march", "97.50", "ACME LTD")])
    assert states(result) == {"A-100": "underpaid"}
    assert [item.amount for item in result.proposals] == [Decimal("2.50")]


def test_money_that_went_out_is_no_payment_and_a_credit_note_is_no_debt() -> None:
    """Both keep their sign and stay apart."""
    result = reconcile([invoice("C-1", "-30.00")], [payment("fee", "-2.00")])
    assert states(result) == {"C-1": "credit note"}
    assert surpluses(result) == [("outgoing", Decimal("-2.00"))]


def test_what_an_earlier_run_wrote_off_is_not_proposed_again() -> None:
    """The ledger's amount counts as settled."""
    result = reconcile([invoice("A-100", "100.00")], [payment("A-100", "95.00")], {"A-100": Decimal("5.00")})
    assert states(result) == {"A-100": "matched"}
    assert result.proposals == ()


cents = st.decimals(min_value=-50, max_value=300, places=2)
names = st.sampled_from(["", "Acme Ltd", "ACME", "Birch & Co", "Corvid"])
dates = st.none() | st.dates(MARCH, MARCH + timedelta(days=200))
texts = st.lists(st.sampled_from(["A-1", "A-2", "INV-300", "300", "7", "thanks", "&", "a1"]), max_size=4).map(" ".join)
invoices = st.lists(
    st.builds(Invoice, st.sampled_from(["A-1", "A-2", "A-3", "INV-300", "7", "X"]), cents, dates, names),
    max_size=6,
    unique_by=lambda each: each.number,
)
payments = st.lists(st.builds(Payment, texts, cents, dates, names, st.integers(0, 99)), max_size=12)
ledgers = st.dictionaries(st.sampled_from(["A-1", "INV-300"]), st.decimals(min_value=0, max_value=400, places=2))


@given(invoices, payments, ledgers)
def test_every_cent_is_accounted_for_exactly_once(
    owed: list[Invoice], paid: list[Payment], written_off: dict[str, Decimal]
) -> None:
    """An invoice is settled, written off or open; a payment is settled or surplus; both sums agree with the files."""
    result = reconcile(owed, paid, written_off)
    assert [item.invoice for item in result.settlements] == owed
    for item in result.settlements:
        settled = sum((made.amount for made in result.allocations if made.invoice == item.invoice), Decimal(0))
        if item.state != "credit note":
            assert settled + item.written_off + item.open == item.invoice.amount
            assert item.open >= 0
    for index, each in enumerate(paid):
        placed = sum((made.amount for made in result.allocations if made.payment is each), Decimal(0))
        placed += sum((left.amount for left in result.surpluses if left.payment is each), Decimal(0))
        assert placed == each.amount, index
    sums = totals(result)
    assert sums["invoiced"] == sum((each.amount for each in owed), Decimal(0))
    assert sums["on the statement"] == sum((each.amount for each in paid), Decimal(0))
    assert sums["invoiced"] == (
        sums["settled"] + sums["written off before"] + sums["still open"] + sums["credit notes"]
    )


@given(invoices, payments)
def test_the_order_of_the_statement_does_not_matter_for_what_is_settled(
    owed: list[Invoice], paid: list[Payment]
) -> None:
    """Payments are taken by date, so a statement sorted the other way round gives the same sums."""
    numbered = [Payment(each.text, each.amount, each.booked, each.payer, line) for line, each in enumerate(paid)]
    assert totals(reconcile(owed, numbered)) == totals(reconcile(owed, numbered[::-1]))
