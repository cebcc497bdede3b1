"""Asking a person at the terminal: what waits, and what they decide about it."""

import json
import select
import sys
import termios
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click
from rich.box import ROUNDED
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from turnfleet.cli.printing import as_json, safe, short_value, thawed
from turnfleet.doctor.texts import span
from turnfleet.interrupt import RunInterrupt
from turnfleet_kernel.contracts.interrupts import Answer, Approve, Decision, Edit, Reject, Retry

GLANCE_SECONDS = 0.2
_CHOICES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "approval": (("y", "yes"), ("n", "no"), ("e", "edit")),
    "question": (("a", "answer"), ("n", "no answer")),
    "in_doubt": (("y", "yes, it happened"), ("r", "it did not: call it"), ("n", "no: skip it")),
}
_TITLES = {
    "approval": "may {tool} be called?",
    "question": "the agent asks",
    "in_doubt": "did this call of {tool} happen? Its worker died before it could say",
}


def show_interrupt(console: Console, interrupt: RunInterrupt, *, place: str = "") -> None:
    """Print what is asked: a table of the arguments on a terminal, one line each elsewhere."""
    title = _TITLES[interrupt.kind].format(tool=interrupt.tool)
    rows = [(name, short_value(value, 200)) for name, value in (interrupt.arguments or {}).items()]
    if interrupt.question is not None:
        rows.append(("question", safe(interrupt.question)))
    if interrupt.roles:
        rows.append(("who may decide", ", ".join(interrupt.roles)))
    if interrupt.expires_at is not None:
        left = (interrupt.expires_at - datetime.now(UTC)).total_seconds()
        remains = f"{span(left)} left" if left > 0 else "over"
        rows.append(("until", f"{interrupt.expires_at:%Y-%m-%d %H:%M:%S} UTC ({remains})"))
    if interrupt.schema is not None and interrupt.question is not None:
        rows.append(("answer", f"as JSON that fits {as_json(thawed(interrupt.schema))}"))
    if not console.is_terminal:
        click.echo(f"{place}{title} [{interrupt.id}]", err=console.stderr)
        for name, value in rows:
            click.echo(f"  {name}: {safe(value)}", err=console.stderr)
        return
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", justify="right")
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(Text(safe(name)), Text(safe(value)))
    heading = Text.assemble((place, "dim"), (title, "bold yellow"))
    console.print(Panel(table, box=ROUNDED, title=heading, title_align="left", border_style="yellow", padding=(0, 1)))


def ask_all(console: Console, interrupts: Sequence[RunInterrupt], *, may_skip: bool = False) -> dict[str, Decision]:
    """Ask about each interrupt; return the decisions by interrupt id. `click.Abort` when the person leaves.

    With `may_skip`, a person may leave an interrupt open: it is missing from what is returned.
    """
    decisions: dict[str, Decision] = {}
    for number, interrupt in enumerate(interrupts, start=1):
        place = f"{number} of {len(interrupts)}: " if len(interrupts) > 1 else ""
        show_interrupt(console, interrupt, place=place)
        _forget_typed_ahead()
        decision = _ask(console, interrupt, may_skip=may_skip)
        if decision is not None:
            decisions[interrupt.id] = decision
    return decisions


def _ask(console: Console, interrupt: RunInterrupt, *, may_skip: bool) -> Decision | None:
    choices = _CHOICES[interrupt.kind] + ((("s", "skip for now"),) if may_skip else ())
    letters = {letter: letter for letter, _ in choices} | {words.split(",")[0]: letter for letter, words in choices}
    prompt = ", ".join(f"{words} ({letter})" for letter, words in choices)
    while True:
        said = _line(prompt, err=console.stderr).casefold()
        match letters.get(said):
            case "y":
                return Approve(_value("its result", None, err=console.stderr)) if _is_doubt(interrupt) else Approve()
            case "n":
                return Reject(_line("reason", err=console.stderr))
            case "e":
                return Edit(_edited(interrupt.arguments or {}, err=console.stderr))
            case "a":
                return Answer(_answer(interrupt, err=console.stderr))
            case "r":
                return Retry()
            case "s":
                return None
            case _:
                click.echo(f"  Please say one of: {', '.join(letter for letter, _ in choices)}", err=console.stderr)


def _forget_typed_ahead() -> None:
    """Drop what was typed before the question was seen: a stray "y" must not approve anything."""
    if sys.stdin.isatty():
        termios.tcflush(sys.stdin, termios.TCIFLUSH)


def _line(question: str, *, default: str = "", err: bool) -> str:
    """Ask for a line; Enter alone means the default. `click.Abort` at the end of input.

    Not `input()`: a signal that comes while that begins to wait is noticed with the next key only.
    """
    shown = f" [{safe(default)}]" if default else ""
    click.echo(f"  {question}{shown}: ", nl=False, err=err)
    if sys.stdin.isatty():
        while not select.select([sys.stdin], [], [], GLANCE_SECONDS)[0]:
            continue
    said = sys.stdin.readline()
    if not said:
        raise click.Abort
    return said.strip() or default


def _is_doubt(interrupt: RunInterrupt) -> bool:
    return interrupt.kind == "in_doubt"


def _edited(arguments: Mapping[str, Any], *, err: bool) -> dict[str, Any]:
    return {name: _value(name, thawed(value), err=err) for name, value in arguments.items()}


def _value(name: str, current: Any, *, err: bool) -> Any:
    """Ask for a value; text stays text, anything else is JSON. Enter keeps what is there."""
    is_text = isinstance(current, str)
    while True:
        said = _line(name, default=current if is_text else as_json(current), err=err)
        if is_text:
            return said
        try:
            return json.loads(said)
        except ValueError:
            click.echo(f"  {name} was no text before, so it wants JSON: a number, true, null, [..], {{..}}", err=err)


def _answer(interrupt: RunInterrupt, *, err: bool) -> Any:
    """Ask for an answer: JSON where it reads as what the schema wants, else the text itself."""
    wants_text = interrupt.schema is None or interrupt.schema.get("type") == "string"
    said = _line("answer", err=err)
    if wants_text:
        return said
    try:
        return json.loads(said)
    except ValueError:
        return said
