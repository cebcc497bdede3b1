"""How values look: safe text, plain tables, JSON. Colour only on a terminal, and no control character ever."""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

SHORT = 100
# A model's text or a bank's memo could move the cursor or rewrite the title of the terminal that shows it.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def safe(text: str) -> str:
    """Return the text without characters that a terminal would obey."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def one_line(text: str, limit: int = SHORT) -> str:
    """Return the text as one safe line of at most `limit` characters."""
    line = " ".join(safe(text.replace("\r", " ").replace("\n", " ")).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def as_json(value: Any, *, ascii_only: bool = False) -> str:
    """Return compact JSON; what is not JSON by itself is written as text."""
    return json.dumps(value, ensure_ascii=ascii_only, separators=(",", ":"), default=str)


def short_value(value: Any, limit: int = SHORT) -> str:
    """Return a value as one short line: text as it is, anything else as JSON. Of a long path the end is kept."""
    if isinstance(value, str) and len(value) > limit and value.startswith("/") and " " not in value:
        return "…" + one_line(value[-limit:], limit + 1)[1:]
    return one_line(value if isinstance(value, str) else as_json(thawed(value)), limit)


def thawed(value: Any) -> Any:
    """Return a frozen JSON value as plain dicts and lists."""
    if isinstance(value, Mapping):
        return {key: thawed(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [thawed(item) for item in value]
    return value


def arguments_line(arguments: Mapping[str, Any], limit: int = SHORT) -> str:
    """Return arguments, or an object that a call gave, as `name=value` on one line; empty values are left out."""
    filled = {name: value for name, value in arguments.items() if value not in (None, "", [], {}, ())}
    each = max(limit // max(len(filled), 1), 32)
    return one_line(" ".join(f"{name}={_brief(value, each)}" for name, value in filled.items()), limit + 60)


def _brief(value: Any, limit: int) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{len(value)} {'item' if len(value) == 1 else 'items'}]"
    return short_value(value, limit)


def echo_json(value: Any) -> None:
    """Print one line of JSON; escaped where stdout cannot carry its characters, or they are half of a pair."""
    text = as_json(value)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = as_json(value, ascii_only=True)
    click.echo(text)


def echo_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table: ruled on a terminal, tab-separated without a header elsewhere, so that `cut -f` works."""
    console = Console()
    if not console.is_terminal:
        for row in rows:
            click.echo("\t".join(one_line(cell, 500) for cell in row))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in header:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text(safe(cell)) for cell in row))
    console.print(table)
