"""The write-off ledger: a CSV file that gains a line for each write-off, and never two for one call.

The key of a line is the run's id and the call's id, so that a call made twice (a worker died between the effect and
its receipt) is recorded once. A lock on the file keeps calls of other threads and workers apart.
"""

import csv
import fcntl
import io
import os
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from turnfleet_worker.demo.books import key
from turnfleet_worker.demo.money import shown

COLUMNS = ("key", "run", "invoice", "amount", "reason")


class LedgerError(ValueError):
    """A write-off that the ledger refuses; the text says why, and nothing was recorded."""


@dataclass(frozen=True, slots=True)
class WriteOff:
    """One line of the ledger. `key` names the call that made it; `amount` is what is no longer asked for."""

    key: str
    run: str
    invoice: str
    amount: Decimal
    reason: str


class Ledger:
    """The ledger in one file, which is made with the first write-off."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def record(self, entry: WriteOff) -> WriteOff:
        """Record a write-off and return the line: the earlier one when this call was recorded before.

        `LedgerError` when another call has written this invoice off, in this run or in an earlier one.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a+", newline="", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            for line in _parsed(file.read()):
                if line.key == entry.key:
                    return line
                if key(line.invoice) == key(entry.invoice):
                    raise LedgerError(
                        f"invoice {entry.invoice} was written off already ({shown(line.amount)}, run {line.run}); "
                        "nothing was recorded"
                    )
            file.seek(0, os.SEEK_END)
            text = io.StringIO()
            writer = csv.writer(text)
            if file.tell() == 0:
                writer.writerow(COLUMNS)
            writer.writerow((entry.key, entry.run, entry.invoice, shown(entry.amount), entry.reason))
            # One write of whole lines, and on the disk before the call is called done.
            file.write(text.getvalue())
            file.flush()
            os.fsync(file.fileno())
        return entry

    def entries(self) -> list[WriteOff]:
        """Return every line, in the order of recording."""
        if not self.path.exists():
            return []
        return _parsed(self.path.read_text(encoding="utf-8"))

    def of_run(self, run: str) -> list[WriteOff]:
        """Return what one run wrote off."""
        return [entry for entry in self.entries() if entry.run == run]

    def before(self, run: str) -> Mapping[str, Decimal]:
        """Return what other runs wrote off, by invoice number."""
        written_off: dict[str, Decimal] = defaultdict(Decimal)
        for entry in self.entries():
            if entry.run != run:
                written_off[entry.invoice] += entry.amount
        return written_off


def _parsed(text: str) -> list[WriteOff]:
    return [
        WriteOff(row["key"], row["run"], row["invoice"], Decimal(row["amount"]), row["reason"])
        for row in csv.DictReader(io.StringIO(text, newline=""))
    ]
