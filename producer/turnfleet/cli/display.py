"""Where a story is shown: plain lines for pipes and logs, a live view for a terminal."""

import threading
from contextlib import AbstractContextManager
from typing import Protocol, Self

import click
from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from turnfleet.cli.printing import safe
from turnfleet.cli.story import Line, Story
from turnfleet_kernel.contracts.events import KernelEvent

WIDTH = 8
INDENT = 4
ROWS_BELOW = 3
SPINS_PER_SECOND = 12
_STYLES = {"plain": "", "quiet": "dim", "good": "bold green", "bad": "bold red", "asks": "bold yellow"}
_GLYPHS = {
    "says": "●", "calls": "→", "gives": "←", "waits": "?", "done": "✓", "failed": "✗", "error": "✗",
}  # fmt: skip
_WRAPPED = {"says", "failed", "error", "redis", "report", "ledger", "log", "stands", "decide"}


class Display(AbstractContextManager["Display"], Protocol):
    """Shows events and notes; a context manager, because a live view has to be put away."""

    def show(self, event: KernelEvent) -> None:
        """Show one event."""

    def note(self, what: str, text: str) -> None:
        """Show a line that is no event."""

    def busy(self, text: str) -> None:
        """Say what is being waited for; replaced by whatever comes next."""

    def pause(self) -> None:
        """Put the live part away, so that a person can be asked."""


def display_for(*, terminal: bool) -> Display:
    """Return the live display for a terminal, the plain one otherwise."""
    return LiveDisplay() if terminal else PlainDisplay()


class PlainDisplay:
    """One line an event, no colour, nothing that moves; each line leaves at once."""

    def __init__(self) -> None:
        self._story = Story()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def show(self, event: KernelEvent) -> None:
        """Print the lines that the event completes."""
        for line in self._story.feed(event):
            self.note(line.what, line.text)

    def note(self, what: str, text: str) -> None:
        """Print one line."""
        click.echo(f"{what:<{WIDTH}} {safe(text)}")

    def busy(self, text: str) -> None:
        """Print nothing: what is waited for shows when it comes."""

    def pause(self) -> None:
        """Do nothing: there is nothing to put away."""


class LiveDisplay:
    """Finished lines scroll up; the turn in the making and what is waited for stay at the bottom.

    A thread turns the spinner. rich's own would draw in the middle of what is being printed, over the wrong lines.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)
        self._story = Story()
        self._busy = ""
        self._live: Live | None = None
        self._drawing = threading.RLock()
        self._put_away = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.pause()

    def show(self, event: KernelEvent) -> None:
        """Print what the event completes above the live part, and the rest in it."""
        with self._drawing:
            for line in self._story.feed(event):
                self._print(line)
            self._refresh(self._story.now)

    def note(self, what: str, text: str) -> None:
        """Print one line above the live part."""
        with self._drawing:
            self._print(Line(what, text, "quiet"))

    def busy(self, text: str) -> None:
        """Show a spinner with this text."""
        with self._drawing:
            self._refresh(text)

    def pause(self) -> None:
        """Take the live part away."""
        with self._drawing:
            if self._live is not None:
                self._put_away.set()
                self._live.stop()
                self._live = None

    def _refresh(self, text: str) -> None:
        self._busy = text
        if self._live is None:
            self._live, self._put_away = (
                Live(console=self._console, transient=True, auto_refresh=False),
                threading.Event(),
            )
            self._live.start()
            threading.Thread(target=self._spin, args=(self._live, self._put_away), daemon=True).start()
        spinner = Spinner("dots", Text(self._busy, style="dim"))
        speaking = self._story.speaking
        parts = [_laid_out(Line("says", self._end_of(speaking))), spinner] if speaking else [spinner]
        self._live.update(Group(*parts))

    def _spin(self, live: Live, put_away: threading.Event) -> None:
        while not put_away.wait(1 / SPINS_PER_SECOND):
            with self._drawing:
                if not put_away.is_set():
                    live.refresh()

    def _end_of(self, text: str) -> str:
        """Return as much of the end of a text as the screen has room for: there it is being written."""
        rows = Text(text).wrap(self._console, max(self._console.width - INDENT, 1), overflow="fold")
        return "\n".join(row.plain for row in rows[-max(self._console.height - ROWS_BELOW, 1) :])

    def _print(self, line: Line) -> None:
        if line.what in _WRAPPED:
            self._console.print(_laid_out(line))
        else:
            self._console.print(_laid_out(line), no_wrap=True, overflow="ellipsis")


def _laid_out(line: Line) -> Table | Text:
    """Return a line behind its glyph: what is said wraps under itself, anything else is cut at the edge."""
    style = _STYLES[line.mood]
    text = safe(line.whole or line.text)
    label, glyph = ("", _GLYPHS[line.what]) if line.what in _GLYPHS else (f"{line.what:<{WIDTH}} ", "·")
    if line.what not in _WRAPPED:
        head, gap, rest = text.partition("  ")
        return Text.assemble(
            (f" {glyph} ", style), (label, f"bold {style}"), (head, f"bold {style}"), gap, (rest, style)
        )
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=2, justify="right")
    grid.add_column(overflow="fold")
    grid.add_row(Text(glyph, style=style), Text.assemble((label, f"bold {style}"), (text, style)))
    return grid
