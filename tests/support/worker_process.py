"""A real `celery worker` process of the tests' own: started, watched through its log, ended by its pid."""

import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from support.waiting import LIMIT_SECONDS, eventually

TESTS = Path(__file__).resolve().parent.parent
START_SECONDS = 120.0  # a start of two seconds, on a machine that is busy with ten others
STOP_SECONDS = 60.0

_numbers = itertools.count(1)


class WorkerProcess:
    """One worker; `with WorkerProcess("pool.apps.recording", env={...}) as worker:` starts it and waits until ready.

    `app` is what `-A` takes; modules under tests/ are importable. `env` is added to this process's environment.
    `folder` is where the worker runs, empty at first. Without its `banner`, the log is its standard error alone.
    """

    def __init__(
        self,
        app: str,
        *,
        concurrency: int = 2,
        env: Mapping[str, str] | None = None,
        options: Sequence[str] = (),
        name: str | None = None,
        banner: bool = True,
    ) -> None:
        self.name = name or f"w{os.getpid()}x{next(_numbers)}"
        self.hostname = f"{self.name}@test"
        self._command = [sys.executable, "-m", "celery", "-A", app, "worker", "-c", str(concurrency)]
        # Mingle waits a second for other workers' revoked ids; no test needs them.
        self._command += ["-n", self.hostname, "-l", "INFO", "--without-mingle", *options]
        self._env = {**os.environ, "PYTHONPATH": str(TESTS), "PYTHONUNBUFFERED": "1", **(env or {})}
        self.folder = Path(tempfile.mkdtemp(prefix="turnfleet-worker-"))
        self._log = self.folder / "log"
        self._banner = banner
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        try:
            self.wait_ready()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            error.add_note(f"log of {self.hostname}:\n{self.log}")
        self.close()

    @property
    def pid(self) -> int:
        """The process's id."""
        assert self._process is not None, "the worker was not started"
        return self._process.pid

    @property
    def log(self) -> str:
        """Everything that the worker wrote so far, on both of its outputs."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    @property
    def running(self) -> bool:
        """Whether the process is alive."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the process and come back at once. The folder that it runs in is its own, and empty."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self.folder,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=log if self._banner else subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )

    def wait_ready(self, timeout: float = START_SECONDS) -> None:
        """Wait until the worker consumes; AssertionError with its log when it ends before, or takes too long."""
        self.wait_for_log(f"{self.hostname} ready.", timeout)

    def wait_for_log(self, text: str, timeout: float = LIMIT_SECONDS) -> None:
        """Wait until the log holds `text`."""

        def found() -> bool:
            running = self.running  # asked first: it may log the text and end between two looks
            if text in self.log:
                return True
            assert running, f"the worker ended before it logged {text!r}:\n{self.log}"
            return False

        eventually(found, timeout, what=f"{text!r} in the log of {self.hostname}")

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        os.kill(self.pid, number)

    def wait(self, timeout: float = STOP_SECONDS) -> int:
        """Wait for the end and return the exit code (-9 after a kill); AssertionError with the log when it stays."""
        assert self._process is not None, "the worker was not started"
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.hostname} did not end within {timeout:g} s:\n{self.log}") from None

    def stop(self, timeout: float = STOP_SECONDS) -> int:
        """Ask for a warm shutdown (SIGTERM) and return the exit code."""
        self.send(signal.SIGTERM)
        return self.wait(timeout)

    def kill(self) -> None:
        """End the process as `kill -9` does."""
        assert self._process is not None, "the worker was not started"
        self._process.kill()
        self._process.wait(STOP_SECONDS)

    def close(self) -> None:
        """Make sure that nothing is left: the process is dead (killed, if it still runs) and its folder gone."""
        if self.running:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
