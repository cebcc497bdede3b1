"""Child processes with one owner: each in its own process group, each ended when its owner leaves."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from turnfleet_kernel.errors import TurnfleetError
from turnfleet_worker.local.signals import Signals

LEASH = Path(__file__).with_name("leash.py")
POLL_SECONDS = 0.05
TAIL_LINES = 12


class ChildFailedError(TurnfleetError):
    """A process that a command needs ended or never became ready; the text names its log and shows its last lines."""


class Child:
    """One process and everything it started, with its log file; without one, its output goes where ours goes.

    It runs in a session of its own, so that a Ctrl-C at the terminal reaches only the owner, who then ends it properly.
    """

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path | None) -> None:
        self.name = name
        self.process = process
        self.log = log

    @property
    def running(self) -> bool:
        """Whether the process has not ended."""
        return self.process.poll() is None

    def log_tail(self) -> str:
        """Return the last lines of the log, indented."""
        if self.log is None or not self.log.exists():
            return ""
        lines = self.log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
        return "\n".join(f"    {line}" for line in lines) or "    (the log is empty)"

    def failed(self, what: str) -> ChildFailedError:
        """Return the error that says what happened to this process."""
        if self.log is None:
            return ChildFailedError(f"{self.name} {what}; it says why above")
        return ChildFailedError(f"{self.name} {what}; its log is {self.log} and ends with:\n{self.log_tail()}")

    def wait_until(self, ready: Callable[[], bool], *, seconds: float) -> None:
        """Wait until `ready()`; `ChildFailedError` when the process ends before, or after `seconds`."""
        limit = time.monotonic() + seconds
        while not ready():
            if not self.running:
                raise self.failed(f"ended with exit code {self.process.returncode} before it was ready")
            if time.monotonic() > limit:
                raise self.failed(f"was not ready after {seconds:.0f} s")
            time.sleep(POLL_SECONDS)

    def signal_group(self, number: int) -> None:
        """Send a signal to the process and to what it started."""
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            return

    def stop(self, *, seconds: float, hurry: Callable[[], bool]) -> None:
        """End the process: SIGTERM, then SIGKILL after `seconds` or as soon as `hurry()`. Never raises for its exit."""
        self.signal_group(signal.SIGTERM)
        limit = time.monotonic() + seconds
        while self.running and time.monotonic() < limit and not hurry():
            time.sleep(POLL_SECONDS)
        # Also when the process itself is gone: what it started shares its group.
        self.signal_group(signal.SIGKILL)
        self.process.wait()


class Children:
    """The processes of one command; leaving the context ends them all, the last started first."""

    def __init__(self, signals: Signals, *, stop_seconds: float = 5.0) -> None:
        self._signals = signals
        self._stop_seconds = stop_seconds
        self._children: list[Child] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._signals.muted():
            asked = self._signals.times
            while self._children:
                self._children.pop().stop(seconds=self._stop_seconds, hurry=lambda: self._signals.times > asked)

    @property
    def all(self) -> Sequence[Child]:
        """The processes started and not yet ended."""
        return tuple(self._children)

    def start(
        self, name: str, command: Sequence[str], *, log: Path | None, environment: Mapping[str, str] | None = None
    ) -> Child:
        """Start `command` with its output in `log`; it dies with this process even when this process is killed."""
        leashed = [sys.executable, "-I", "-S", str(LEASH), str(os.getpid()), *command]
        with self._signals.held(), ExitStack() as files:
            output = None if log is None else files.enter_context(log.open("ab"))
            process = subprocess.Popen(  # noqa: S603 - the command is this package's own
                leashed,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **(environment or {})},
            )
            child = Child(name, process, log)
            self._children.append(child)
        return child

    def end(self, child: Child) -> None:
        """End one process now."""
        with self._signals.muted():
            asked = self._signals.times
            child.stop(seconds=self._stop_seconds, hurry=lambda: self._signals.times > asked)
            self._children.remove(child)

    def check(self) -> None:
        """Raise `ChildFailedError` when one of the processes has ended by itself."""
        for child in self._children:
            if not child.running:
                raise child.failed(f"ended with exit code {child.process.returncode}")

    def wait_while_running(self) -> None:
        """Return never: until a signal stops the command, or `ChildFailedError` when a process ends by itself."""
        while True:
            self.check()
            time.sleep(POLL_SECONDS * 4)
