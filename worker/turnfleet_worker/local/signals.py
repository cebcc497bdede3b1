"""Leaving in good order: SIGINT, SIGTERM and SIGHUP become one exception, and never in the middle of a start.

Python raises KeyboardInterrupt between any two instructions. Between the moment a child process exists and the moment
somebody has noted it, that leaves an orphan. `Signals.held()` puts the exception off until the note is made.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Self

WATCHED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(KeyboardInterrupt):
    """Somebody asked this command to stop; `exit_code` is 128 plus the signal's number, as shells have it."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


class Signals:
    """Watch the signals that end a command; a context manager that puts the former handlers back."""

    def __init__(self) -> None:
        self.asked: int | None = None
        self.times = 0
        self._holding = 0
        self._former: dict[int, object] = {}

    def __enter__(self) -> Self:
        for number in WATCHED:
            self._former[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)  # type: ignore[arg-type] # what signal.signal() returned a moment ago

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self.asked = number
        self.times += 1
        if not self._holding:
            raise Stopped(number)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Put a stop off until the block has ended, then raise it."""
        before = self.times
        self._holding += 1
        try:
            yield
        finally:
            self._holding -= 1
        if self.times > before and not self._holding and self.asked is not None:
            raise Stopped(self.asked)

    @contextmanager
    def muted(self) -> Iterator[None]:
        """Raise nothing in the block: it is the cleaning up. `times` still counts, for who wants to hurry."""
        self._holding += 1
        try:
            yield
        finally:
            self._holding -= 1
