"""Amounts and dates are read by the style of their column."""

from datetime import date
from decimal import Decimal
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnfleet_worker.demo.money import AmountStyle, DateStyle


@pytest.mark.parametrize(
    ("column", "cell", "expected"),
    [
        (["12.00"], "12.00", "12.00"),
        (["1,234.56"], "1,234.56", "1234.56"),
        (["1.234,56"], "1.234,56", "1234.56"),
        (["12,5"], "12,5", "12.50"),
        (["1 234,56"], "1 234,56", "1234.56"),
        (["1'234.50"], "1'234.50", "1234.50"),
        (["€ 9.90"], "€ 9.90", "9.90"),
        (["9.90 EUR"], "9.90 EUR", "9.90"),
        (["(12.00)"], "(12.00)", "-12.00"),
        (["12.00-"], "12.00-", "-12.00"),
        (["-€12.00"], "-€12.00", "-12.00"),
        (["\u221212.00"], "\u221212.00", "-12.00"),
        ([".50"], ".50", "0.50"),
        (["1,234"], "1,234", "1234.00"),
        (["1,234", "5,00"], "5,00", "5.00"),
        (["1.000.000"], "1.000.000", "1000000.00"),
        (["0"], "0", "0.00"),
    ],
)
def test_an_amount_is_read_by_the_style_of_its_column(column: list[str], cell: str, expected: str) -> None:
    """Thousands, decimals, currency signs and three ways of writing a minus."""
    assert AmountStyle.of(column).read(cell) == Decimal(expected)


@pytest.mark.parametrize("cell", ["", "n/a", "96,oo", "12.00 and more", "1.2.3", "1,23,4", "1e5", "NaN", "9" * 20])
def test_what_is_no_amount_is_refused(cell: str) -> None:
    """A cell that is no amount is an error, never a guess."""
    with pytest.raises(ValueError, match=r"amount|column"):
        AmountStyle().read(cell)


def test_an_amount_against_its_column_is_refused() -> None:
    """In a column with decimal commas a point is an error: the other reading is a hundred times more."""
    commas, points = AmountStyle.of(["1,50", "2,75", "12.50"]), AmountStyle.of(["1.50", "2.75"])
    with pytest.raises(ValueError, match="rest of its column"):
        commas.read("12.50")
    with pytest.raises(ValueError, match="rest of its column"):
        points.read("1.234,56")


def test_parts_of_a_cent_are_refused() -> None:
    """Money has cents."""
    with pytest.raises(ValueError, match="parts of a cent"):
        AmountStyle.of(["1.125", "0.25"]).read("0.125")


@given(st.decimals(min_value=-(10**9), max_value=10**9, places=2), st.sampled_from([".", ","]))
def test_every_amount_is_read_back(amount: Decimal, decimal: Literal[".", ","]) -> None:
    """What was written with thousands and decimals, either way round, is read as it was."""
    english = f"{amount:,.2f}"
    text = english if decimal == "." else english.translate(str.maketrans(",.", ".,"))
    assert AmountStyle(decimal).read(text) == amount


@pytest.mark.parametrize(
    ("column", "cell", "expected"),
    [
        ([], "2026-03-04", date(2026, 3, 4)),
        ([], "2026-03-04T10:00:00Z", date(2026, 3, 4)),
        (["31/03/2026"], "04/03/2026", date(2026, 3, 4)),
        (["03/31/2026"], "03/04/2026", date(2026, 3, 4)),
        ([], "04.03.2026", date(2026, 3, 4)),
        ([], "04.03.26", date(2026, 3, 4)),
        ([], "4 Mar 2026", date(2026, 3, 4)),
        ([], "Mar 4, 2026", date(2026, 3, 4)),
        ([], "4 March 2026", date(2026, 3, 4)),
        ([], "20260304", date(2026, 3, 4)),
        ([], "", None),
    ],
)
def test_a_date_is_read_by_the_style_of_its_column(column: list[str], cell: str, expected: date | None) -> None:
    """Day first or month first is decided by the column's own dates."""
    assert DateStyle.of(column).read(cell) == expected


@pytest.mark.parametrize("cell", ["soon", "31/31/2026", "2026-02-30"])
def test_what_is_no_date_is_refused(cell: str) -> None:
    """A cell that is no date is an error."""
    with pytest.raises(ValueError, match="is not a date"):
        DateStyle().read(cell)
