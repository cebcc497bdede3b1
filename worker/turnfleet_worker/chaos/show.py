"""What is seen while a chaos goes on: a live view on a terminal, plain lines elsewhere, nothing for `--json`."""

import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, Protocol, Self

import click
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from turnfleet_worker.chaos.report import Report

WIDTH: Final = 10
EVERY_SECONDS: Final = 10.0
_COLOURS: Final = {"fault": "yellow", "thaw": "cyan", "redis": "cyan", "worker": "bold red"}


@dataclass(frozen=True, slots=True)
class Progress:
    """How far it is: seconds of `total` (the faults'), runs enqueued and ended of `runs`, workers at work."""

    seconds: float
    total: float
    enqueued: int
    ended: int
    runs: int
    at_work: int
    workers: int
    faults: int


class Show(AbstractContextManager["Show"], Protocol):
    """Shows a chaos; a context manager, because a live view has to be put away."""

    def note(self, what: str, text: str) -> None:
        """Show something that happened."""

    def progress(self, progress: Progress) -> None:
        """Show how far it is."""

    def end(self, report: Report) -> None:
        """Show the report."""


class Silence:
    """Shows nothing: the report is printed as JSON."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def note(self, what: str, text: str) -> None:
        """Say nothing."""

    def progress(self, progress: Progress) -> None:
        """Say nothing."""

    def end(self, report: Report) -> None:
        """Say nothing."""


class PlainLines:
    """One line a happening and one every ten seconds; no colour."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._said = self._began

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def note(self, what: str, text: str) -> None:
        """Print a line."""
        click.echo(f"{time.monotonic() - self._began:6.1f} s  {what:<{WIDTH}} {text}")

    def progress(self, progress: Progress) -> None:
        """Print a line now and then."""
        if time.monotonic() - self._said >= EVERY_SECONDS:
            self._said = time.monotonic()
            self.note("progress", _sentence(progress))

    def end(self, report: Report) -> None:
        """Print the table, then what is wrong."""
        click.echo()
        for name, figures in report.rows():
            click.echo(f"{name:<{WIDTH}} {figures}".rstrip())
        for finding in report.findings():
            click.echo(finding)


class LiveView:
    """Happenings scroll up; the progress stays at the bottom."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)
        self._live = Live(console=self._console, transient=True, refresh_per_second=8)
        self._began = time.monotonic()

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def note(self, what: str, text: str) -> None:
        """Print a line above the progress."""
        passed = f"{time.monotonic() - self._began:6.1f} s  "
        line = Text.assemble((passed, "dim"), (f"{what:<{WIDTH}} ", _COLOURS.get(what, "bold")), text)
        self._console.print(line, no_wrap=True, overflow="ellipsis")

    def progress(self, progress: Progress) -> None:
        """Move the bars."""
        grid = Table.grid(padding=(0, 1))
        grid.add_row("time", ProgressBar(progress.total, min(progress.seconds, progress.total), width=40))
        grid.add_row("runs", ProgressBar(max(progress.runs, 1), progress.ended, width=40))
        self._live.update(Group(grid, Text(_sentence(progress), style="dim")))

    def end(self, report: Report) -> None:
        """Print the table, then what is wrong."""
        self._live.stop()
        table = Table(box=None, show_header=False, pad_edge=False)
        table.add_column(style="bold")
        table.add_column(overflow="fold")
        for name, figures in report.rows():
            style = ("bold green" if report.good else "bold red") if name == "verdict" else ""
            table.add_row(name, Text(figures, style=style))
        self._console.print()
        self._console.print(table)
        for finding in report.findings():
            self._console.print(Text(finding, style="red"))


def show_for(*, terminal: bool, as_json: bool) -> Show:
    """Return what fits where the output goes."""
    if as_json:
        return Silence()
    return LiveView() if terminal else PlainLines()


def _sentence(progress: Progress) -> str:
    if progress.seconds < progress.total:
        stage = f"{progress.total - progress.seconds:.0f} s of faults left"
    else:
        stage = "no more faults, the rest runs to its end"
    return (
        f"{progress.ended} of {progress.runs} runs ended, {progress.enqueued - progress.ended} under way, "
        f"{progress.at_work} of {progress.workers} workers at work, {progress.faults} faults; {stage}"
    )
