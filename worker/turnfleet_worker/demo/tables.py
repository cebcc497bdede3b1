"""A table out of a CSV file that nobody prepared for us: encoding, delimiter, title lines and headers are found out.

What cannot be read is reported with the file and the line; it never stops the rest.
"""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

MAX_BYTES = 20_000_000
HEADER_WITHIN = 30
MAX_SPAN = 20
DELIMITERS = ",;\t|"


class UnreadableFileError(ValueError):
    """A file that is no table at all; the text names the file, says why, and what was looked for."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A line that was left out: its file's name, its line number from 1, and what is wrong with it."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file} line {self.line}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Row:
    """One line's cells by the field they were recognised as, stripped; `line` is where the row ends in the file."""

    line: int
    cells: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of one file, the header of each recognised field, and the lines that were left out."""

    file: str
    headers: Mapping[str, str]
    rows: tuple[Row, ...]
    problems: tuple[Problem, ...]

    def column(self, field: str) -> list[str]:
        """Return all the cells of a field, empty ones left out."""
        return [row.cells[field] for row in self.rows if row.cells.get(field)]


@dataclass(frozen=True, slots=True)
class Columns:
    """Which headers mean which field, best first, and which fields a file must have (one of each group)."""

    names: Mapping[str, tuple[str, ...]]
    required: tuple[tuple[str, ...], ...]

    def recognise(self, cells: Sequence[str]) -> dict[str, int]:
        """Return the column of each field. A whole header counts more than a word of one; each column is used once."""
        headers = [" ".join(re.findall(r"[a-z0-9]+", cell.casefold())) for cell in cells]
        found: dict[str, int] = {}
        for fits in (_is_header, _is_word_of_header):
            for field, names in self.names.items():
                if field in found:
                    continue
                for name in names:
                    free = [i for i, header in enumerate(headers) if fits(name, header) and i not in found.values()]
                    if free:
                        found[field] = free[0]
                        break
        return found

    def complete(self, found: Mapping[str, int]) -> bool:
        """Whether every required group has a column."""
        return all(any(field in found for field in group) for group in self.required)


def _is_header(name: str, header: str) -> bool:
    return name == header


def _is_word_of_header(name: str, header: str) -> bool:
    return f" {name} " in f" {header} "


def read_table(path: Path, columns: Columns) -> Table:
    """Read a CSV file into a table; `UnreadableFileError` when it is missing, over 20 MB, or has no header row."""
    text = _decoded(path)
    lines, problems = _records(path.name, text, _delimiter(text, columns))
    for position, (_, cells) in enumerate(lines[:HEADER_WITHIN]):
        found = columns.recognise(cells)
        if columns.complete(found):
            rows, short = _rows(path.name, found, lines[position + 1 :])
            headers = {field: cells[index] for field, index in found.items()}
            return Table(path.name, headers, tuple(rows), (*problems, *short))
    wanted = "; ".join(" or ".join(columns.names[field][0] for field in group) for group in columns.required)
    raise UnreadableFileError(
        f"{path.name}: no header row among its first {HEADER_WITHIN} lines. A column is needed for each of: {wanted}"
    )


def _records(file: str, text: str, delimiter: str) -> tuple[list[tuple[int, list[str]]], list[Problem]]:
    """Part the text into records, each with its last line's number.

    A quote that is opened and never closed would swallow the rest of the file, and with it money: a record may span
    `MAX_SPAN` lines, and a line with such a quote is reported and left out alone.
    """
    lines = io.StringIO(text, newline="").readlines()
    records: list[tuple[int, list[str]]] = []
    problems: list[Problem] = []
    position = 0
    while position < len(lines):
        reader = csv.reader(lines[position : position + MAX_SPAN], delimiter=delimiter, strict=True)
        try:
            cells = next(reader)
            position += reader.line_num
        except csv.Error:
            position += 1
            alone = lines[position - 1]
            if alone.count('"') % 2:
                problems.append(Problem(file, position, "a quote is opened and not closed"))
                continue
            try:
                cells = next(csv.reader([alone], delimiter=delimiter))
            except csv.Error as error:
                problems.append(Problem(file, position, str(error)))
                continue
        records.append((position, [cell.strip() for cell in cells]))
    return records, problems


def _rows(
    file: str, found: Mapping[str, int], lines: Sequence[tuple[int, list[str]]]
) -> tuple[list[Row], list[Problem]]:
    rows: list[Row] = []
    problems: list[Problem] = []
    for number, cells in lines:
        if not any(cells):
            continue
        picked = {field: cells[index] for field, index in found.items() if index < len(cells)}
        if len(cells) == 1 or not any(picked.values()):
            problems.append(Problem(file, number, "no cell of a known column"))
        else:
            rows.append(Row(number, {field: picked.get(field, "") for field in found}))
    return rows, problems


def _decoded(path: Path) -> str:
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise UnreadableFileError(f"{path.name}: {size} bytes, and at most {MAX_BYTES} are read")
        data = path.read_bytes()
    except OSError as error:
        raise UnreadableFileError(f"{path.name}: {error.strerror or error}") from error
    # Every byte means something in the last one, so that an old export is read and only an accent may be wrong.
    encodings = ["utf-16"] if data.startswith((b"\xff\xfe", b"\xfe\xff")) else ["utf-8-sig", "cp1252", "latin-1"]
    for encoding in encodings:
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        if "\0" in text:
            break
        return text
    raise UnreadableFileError(f"{path.name}: not a text file")


def _delimiter(text: str, columns: Columns) -> str:
    """Return the delimiter under which a header row appears; else the one that parts the first lines most."""
    head = text.splitlines()[:HEADER_WITHIN]

    def score(delimiter: str) -> tuple[int, int]:
        parted = [line.split(delimiter) for line in head]
        recognised = max((len(columns.recognise([cell.strip('" ') for cell in cells])) for cells in parted), default=0)
        return recognised, sum(len(cells) for cells in parted)

    return max(DELIMITERS, key=score)
