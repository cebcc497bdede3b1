"""Any pair of files: encodings, delimiters, headers and bad lines."""

from decimal import Decimal
from pathlib import Path

import pytest

from turnfleet_worker.demo.books import read_invoices, read_payments
from turnfleet_worker.demo.tables import UnreadableFileError


def written(folder: Path, text: str, encoding: str = "utf-8") -> Path:
    """Return a file with this text."""
    path = folder / "file.csv"
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_delimiter_and_encoding_are_found_out(tmp_path: Path, delimiter: str, encoding: str) -> None:
    """The same invoice is read from each combination, a byte-order mark included."""
    text = "Invoice;Customer;Total\r\nA-1;Café Zoë;12.50\r\n".replace(";", delimiter)
    (invoice,) = read_invoices(written(tmp_path, text, encoding)).entries
    assert (invoice.number, invoice.customer, invoice.amount) == ("A-1", "Café Zoë", Decimal("12.50"))


@pytest.mark.parametrize(
    "header",
    [
        "invoice,amount,due",
        "ID,Total,Due Date",
        "Invoice No.,Amount Due,Payable by",
        "Document Number,Gross,Date",
        "NUMBER,SUM,DUE",
        "reference,value,date",
        "Rechnungsnummer,Betrag,Datum",
    ],
)
def test_headers_are_matched_tolerantly(tmp_path: Path, header: str) -> None:
    """Number, amount and date are recognised under the names that people use."""
    (invoice,) = read_invoices(written(tmp_path, f"{header}\n7001,10.00,2026-05-01\n")).entries
    assert (invoice.number, invoice.amount, f"{invoice.due}") == ("7001", Decimal("10.00"), "2026-05-01")


def test_title_lines_above_the_header_are_passed_over(tmp_path: Path) -> None:
    """A bank's export begins with its own lines."""
    text = "My Bank plc\n\nAccount,12345\nDate,Memo,Paid in,Paid out\n2026-01-02,A-1,10.00,\n2026-01-03,fee,,2.50\n"
    payments = read_payments(written(tmp_path, text)).entries
    assert [(payment.text, payment.amount) for payment in payments] == [
        ("A-1", Decimal("10.00")),
        ("fee", Decimal("-2.50")),
    ]


def test_a_debit_mark_makes_an_amount_negative(tmp_path: Path) -> None:
    """Banks that write all amounts without sign mark the direction."""
    text = "Date,Text,Amount,Debit/Credit\n2026-01-02,A-1,10.00,C\n2026-01-03,fee,2.50,D\n"
    amounts = [payment.amount for payment in read_payments(written(tmp_path, text)).entries]
    assert amounts == [Decimal("10.00"), Decimal("-2.50")]


def test_bad_lines_are_reported_with_file_and_line_and_the_rest_is_read(tmp_path: Path) -> None:
    """Every line that is left out says where it is and why; nothing else is lost."""
    text = (
        "Invoice,Total,Due,Currency\n"
        "A-1,10.00,2026-01-01,EUR\n"
        "A-2,ten,2026-01-01,EUR\n"
        ",5.00,2026-01-01,EUR\n"
        "A-1,11.00,2026-01-01,EUR\n"
        "A-3,,2026-01-01,EUR\n"
        "A-4,7.00,2026-01-01,USD\n"
        "A-5,8.00,someday,EUR\n"
        "lonely\n"
        'A-6,"9.00,2026-01-01,EUR\n'
        "A-7,10.50,2026-01-01,EUR\n"
        "Total,61.50,,EUR\n"
    )
    books = read_invoices(written(tmp_path, text))
    assert [invoice.number for invoice in books.entries] == ["A-1", "A-5", "A-7"]
    assert [str(problem) for problem in books.problems] == [
        "file.csv line 3: 'ten' is not an amount",
        "file.csv line 4: no invoice number",
        "file.csv line 5: invoice A-1 stands on line 2 already",
        "file.csv line 6: no amount",
        "file.csv line 7: in USD, and this file is in EUR",
        "file.csv line 8: 'someday' is not a date; the row counts without it",
        "file.csv line 9: no cell of a known column",
        "file.csv line 10: a quote is opened and not closed",
        "file.csv line 12: a total, not an invoice",
    ]


def test_a_quoted_cell_may_hold_line_breaks_and_delimiters(tmp_path: Path) -> None:
    """Line numbers go on being those of the file."""
    text = 'Invoice,Customer,Total\nA-1,"Smith, Jones\nand Co",10.00\nA-2,"Say ""hi""",x\n'
    books = read_invoices(written(tmp_path, text))
    assert books.entries[0].customer == "Smith, Jones\nand Co"
    assert [problem.line for problem in books.problems] == [4]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "no header row"),
        (b"a,b,c\n1,2,3\n", "A column is needed for each of: invoice number; amount due"),
        (b"\x00\x01\x02\x00", "not a text file"),
        (b"%PDF-1.4\n\xff\xfe\x00", "not a text file"),
    ],
)
def test_a_file_that_is_no_table_says_so(tmp_path: Path, content: bytes, reason: str) -> None:
    """One error names the file and what was looked for."""
    path = tmp_path / "odd.csv"
    path.write_bytes(content)
    with pytest.raises(UnreadableFileError, match=reason) as caught:
        read_invoices(path)
    assert str(caught.value).startswith("odd.csv: ")


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    """What the system says about a file comes with its name."""
    with pytest.raises(UnreadableFileError, match=r"none\.csv: No such file"):
        read_invoices(tmp_path / "none.csv")
    with pytest.raises(UnreadableFileError, match="Is a directory"):
        read_payments(tmp_path)
