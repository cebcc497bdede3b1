"""What is written: a ledger with one line a call, and a report that overwrites nothing else."""

import fcntl
import threading
from decimal import Decimal
from pathlib import Path

import pytest
from support.waiting import always

from turnfleet_worker.demo import job, tools
from turnfleet_worker.demo.ledger import Ledger, LedgerError, WriteOff


def entry(call: str, invoice: str = "A-1", run: str = "r1", amount: str = "5.00") -> WriteOff:
    """Return a line of the ledger."""
    return WriteOff(f"{run}/{call}", run, invoice, Decimal(amount), "small, and old")


def test_the_same_call_is_recorded_once(tmp_path: Path) -> None:
    """A call that is made again after a crash finds its line: the effect is keyed by the call."""
    ledger = Ledger(tmp_path / "ledger.csv")
    assert ledger.record(entry("c1")) == entry("c1")
    assert ledger.record(entry("c1")) == entry("c1")
    assert ledger.entries() == [entry("c1")]


def test_another_call_cannot_write_the_same_invoice_off_again(tmp_path: Path) -> None:
    """Not in this run and not in a later one; the text says when it was, and that nothing happened."""
    ledger = Ledger(tmp_path / "ledger.csv")
    ledger.record(entry("c1"))
    with pytest.raises(LedgerError, match=r"written off already \(5.00, run r1\); nothing was recorded"):
        ledger.record(entry("c9", invoice="a 1", run="r2"))
    assert ledger.before("r2") == {"A-1": Decimal("5.00")}
    assert ledger.before("r1") == {}


def test_calls_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    """Twenty threads, two calls each with the same key: twenty lines and one header."""
    ledger = Ledger(tmp_path / "ledger.csv")
    threads = [
        threading.Thread(target=ledger.record, args=(entry(f"c{number % 20}", invoice=f"A-{number % 20}"),))
        for number in range(40)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(each.key for each in ledger.entries()) == sorted(f"r1/c{number}" for number in range(20))
    assert len(ledger.path.read_text().splitlines()) == 21


def test_a_call_waits_for_another_that_is_writing(tmp_path: Path) -> None:
    """Between looking for a line and adding one nobody else adds one: another writer is waited for."""
    ledger = Ledger(tmp_path / "ledger.csv")
    ledger.record(entry("c0", invoice="A-0"))
    thread = threading.Thread(target=ledger.record, args=(entry("c1"),))
    with ledger.path.open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        thread.start()
        always(thread.is_alive, 0.3, what="waiting for the lock")
        other.write('r1/c1,r1,A-1,5.00,"small, and old"\n')
    thread.join()
    assert ledger.entries() == [entry("c0", invoice="A-0"), entry("c1")]


@pytest.mark.parametrize("amount", ["0", "-1", "0.001", "NaN"])
def test_an_amount_that_is_none_is_refused(tmp_path: Path, amount: str) -> None:
    """Also when a person edited it into that."""
    with pytest.raises(ValueError, match="above zero, in whole cents"):
        tools.write_off("A-1", Decimal(amount), "", ledger=Ledger(tmp_path / "l"), run_id="r", call_id="c")
    assert not (tmp_path / "l").exists()


def report_to(path: Path, folder: Path) -> None:
    """Write the sample's report."""
    tools.write_report(
        str(job.SAMPLE / "invoices.csv"), str(job.SAMPLE / "payments.csv"), str(path), [],
        ledger=Ledger(folder / "ledger.csv"), run_id="r",
    )  # fmt: skip


def test_a_report_replaces_an_earlier_report_and_no_other_file(tmp_path: Path) -> None:
    """The path comes from a model: a file that is no report is never overwritten."""
    path = tmp_path / "deep" / "report.md"
    report_to(path, tmp_path)
    first = path.read_text()
    report_to(path, tmp_path)
    assert path.read_text() == first
    path.write_text("my diary")
    with pytest.raises(ValueError, match="nothing was overwritten"):
        report_to(path, tmp_path)
    assert path.read_text() == "my diary"
    assert [each.name for each in path.parent.iterdir()] == ["report.md"]


def test_the_totals_of_the_report_add_up(tmp_path: Path) -> None:
    """Invoiced is settled, written off or open; the statement is settled or surplus."""
    path = tmp_path / "report.md"
    report_to(path, tmp_path)
    rows = [line.strip("| ").split(" | ") for line in path.read_text().splitlines() if line.startswith("| ")]
    sums = {row[0]: Decimal(row[1]) for row in rows[2:13]}
    assert sums["Invoiced"] == sums["settled by payments"] + sums["still open"]
    assert sums["On the statement"] == (
        sums["settled by payments"] + sums["overpaid"] + sums["duplicates"] + sums["unknown"] + sums["outgoing"]
    )


def test_a_memo_cannot_break_out_of_its_table(tmp_path: Path) -> None:
    """Bars, line breaks and tags in a bank's text stay inside their cell."""
    (tmp_path / "i.csv").write_text("id,total\nX-1,5.00\n")
    (tmp_path / "p.csv").write_text('memo,amount\n"evil | <b>\n# big",7.00\n')
    tools.write_report(
        str(tmp_path / "i.csv"), str(tmp_path / "p.csv"), str(tmp_path / "r.md"), [],
        ledger=Ledger(tmp_path / "l"), run_id="r",
    )  # fmt: skip
    assert "evil \\| &lt;b> # big" in (tmp_path / "r.md").read_text()


def test_two_currencies_are_not_matched(tmp_path: Path) -> None:
    """Amounts of two currencies are not added up."""
    (tmp_path / "i.csv").write_text("id,total,currency\nX-1,5.00,EUR\n")
    (tmp_path / "p.csv").write_text("memo,amount,currency\nX-1,5.00,USD\n")
    with pytest.raises(ValueError, match=r"i\.csv is in EUR and p\.csv in USD"):
        tools.match(str(tmp_path / "i.csv"), str(tmp_path / "p.csv"), ledger=Ledger(tmp_path / "l"), run_id="r")
