"""Amounts and dates as people and banks write them, read the same way throughout a column.

`1,234` is a thousand in one country and a fraction in another, and 03/04 is March or April. One cell cannot say; the
column as a whole mostly can. So both readers look at every cell before they read the first.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Literal

CENT = Decimal("0.01")
MAX_DIGITS = 15
_NUMBER = re.compile(r"\d(?:[\d.,'\u2019\s]*\d)?|[.,]\d+")
_SPACES = re.compile(r"[\s\u00a0\u202f'\u2019]")
_AROUND = re.compile(r"^(?:[A-Za-z]{0,3}|[€$£¥])?$")
_PARTS = re.compile(r"^(\d{1,4})[./-](\d{1,2})[./-](\d{1,4})(?:[T ].*)?$")
_SHORT_YEAR = 100
_MONTHS_OF_A_YEAR = 12
_WORD_FORMATS = ("%d %b %Y", "%d %B %Y", "%b %d %Y", "%B %d %Y", "%d-%b-%Y", "%d-%b-%y", "%d %b %y", "%Y%m%d")


@dataclass(frozen=True, slots=True)
class AmountStyle:
    """How a column writes amounts: which sign parts the cents off, `.` or `,`."""

    decimal: Literal[".", ","] = "."

    @classmethod
    def of(cls, cells: Iterable[str]) -> "AmountStyle":
        """Return the style that most cells of the column show; a point when none shows one."""
        votes = {".": 0, ",": 0}
        for cell in cells:
            digits = _SPACES.sub("", cell)
            last = max(digits.rfind("."), digits.rfind(","))
            if last < 0:
                continue
            sign, after = digits[last], len(re.findall(r"\d", digits[last:]))
            other = "," if sign == "." else "."
            if other in digits or after in {1, 2}:
                votes[sign] += 1
            elif digits.count(sign) > 1:
                votes[other] += 1
        return cls("," if votes[","] > votes["."] else ".")

    def read(self, cell: str) -> Decimal:
        """Return the amount in a cell such as `-1.234,56`, `€ 12.00`, `(12.00)` or `12.00-`.

        `ValueError` says what is wrong with the cell, without guessing.
        """
        text = cell.strip()
        negative = text.startswith("(") and text.endswith(")")
        text = text.strip("()").strip().replace("\u2212", "-")
        found = _NUMBER.search(text)
        if found is None:
            raise ValueError(f"{cell!r} is not an amount")
        before, after = text[: found.start()].strip(), text[found.end() :].strip()
        negative = negative or before.startswith("-") or before.endswith("-") or after.startswith("-")
        if not (_AROUND.match(before.strip("+- ")) and _AROUND.match(after.strip("+- "))):
            raise ValueError(f"{cell!r} is not an amount")
        thousands = "," if self.decimal == "." else "."
        whole, _, cents = _SPACES.sub("", found.group()).partition(self.decimal)
        groups = whole.split(thousands)
        if thousands in cents or (len(groups) > 1 and any(len(group) != 3 for group in groups[1:])):  # noqa: PLR2004 - thousands come in threes
            raise ValueError(
                f"{cell!r} does not fit the rest of its column, which parts cents off with {self.decimal!r}"
            )
        digits = "".join(groups)
        if not (digits + cents).isdigit() or len(digits + cents) > MAX_DIGITS:
            raise ValueError(f"{cell!r} is not an amount")
        value = Decimal(f"{digits or '0'}.{cents or '0'}")
        if value != value.quantize(CENT):
            raise ValueError(f"{cell!r} has parts of a cent")
        return -value.quantize(CENT) if negative else value.quantize(CENT)


@dataclass(frozen=True, slots=True)
class DateStyle:
    """How a column writes dates in digits: day first, or month first."""

    day_first: bool = True

    @classmethod
    def of(cls, cells: Iterable[str]) -> "DateStyle":
        """Return the order that the column's dates show; day first when none does."""
        day = month = 0
        for cell in cells:
            found = _PARTS.match(cell.strip())
            if found is None or len(found.group(1)) == 4:  # noqa: PLR2004 - a year written out comes first
                continue
            day += int(found.group(1)) > _MONTHS_OF_A_YEAR
            month += int(found.group(2)) > _MONTHS_OF_A_YEAR
        return cls(day_first=day >= month)

    def read(self, cell: str) -> date | None:
        """Return the date in a cell, None for an empty one; `ValueError` when it is not a date."""
        text = cell.strip()
        if not text:
            return None
        found = _PARTS.match(text)
        if found is None:
            return _in_words(text, cell)
        first, second, third = (int(part) for part in found.groups())
        if len(found.group(1)) == 4:  # noqa: PLR2004 - a year written out
            year, month, day = first, second, third
        elif self.day_first:
            day, month, year = first, second, third
        else:
            month, day, year = first, second, third
        try:
            return date(year + 2000 if year < _SHORT_YEAR else year, month, day)
        except ValueError as error:
            raise ValueError(f"{cell!r} is not a date") from error


def _in_words(text: str, cell: str) -> date:
    plain = " ".join(text.replace(",", " ").split())
    for form in _WORD_FORMATS:
        try:
            return datetime.strptime(plain, form).date()  # noqa: DTZ007 - a date has no zone
        except ValueError:
            continue
    raise ValueError(f"{cell!r} is not a date")


def shown(amount: Decimal) -> str:
    """Return an amount as reports and the model see it: plain digits, two decimals."""
    return f"{amount:.2f}"
