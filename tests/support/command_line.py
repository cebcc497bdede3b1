"""The `turnfleet` command as a process of the tests' own, and every process that it starts."""

import codecs
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

COMMAND = (sys.executable, "-m", "turnfleet.cli")
END_SECONDS = 240.0


def run_command(
    *arguments: str, folder: Path, env: Mapping[str, str] | None = None, timeout: float = END_SECONDS
) -> subprocess.CompletedProcess[str]:
    """Run the command without a terminal and return what it printed."""
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=folder,
        env=clean_environment({"TMPDIR": str(folder), **(env or {})}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def clean_environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment without what would change how the command behaves."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("TURNFLEET_", "PYTHONUNBUFFERED"))
    }
    return {**kept, "COLUMNS": "200", "TERM": "xterm-256color", **(more or {})}


class Terminal:
    """The command on a terminal: what it prints is read as text, what a person types is sent."""

    def __init__(self, *arguments: str, folder: Path, env: Mapping[str, str] | None = None) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=folder,
            env=clean_environment({"TMPDIR": str(folder), **(env or {})}),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self.text = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._ours)

    def wait_for(self, pattern: str, *, timeout: float = END_SECONDS, forget: bool = True) -> None:
        """Read until the pattern was printed; what stands before it is forgotten, unless `forget` is False."""
        limit = time.monotonic() + timeout
        while True:
            found = re.search(pattern, self.text)
            if found is not None:
                self.text = self.text[found.end() :] if forget else self.text
                return
            if time.monotonic() > limit or not self._read():
                raise AssertionError(f"{pattern!r} was not printed; what was:\n{self.text}")

    def type(self, text: str) -> None:
        """Type this, and Enter."""
        os.write(self._ours, f"{text}\n".encode())

    def press_ctrl_c(self) -> None:
        """Send what the terminal sends: SIGINT to the command's own process group."""
        os.killpg(self.process.pid, 2)

    def wait(self, *, timeout: float = END_SECONDS) -> int:
        """Read to the end and return the exit code."""
        limit = time.monotonic() + timeout
        while self._read():
            if time.monotonic() > limit:
                raise AssertionError(f"the command did not end; what it printed last:\n{self.text[-2000:]}")
        return self.process.wait(timeout)

    def _read(self) -> bool:
        """Read what there is; False when the other side has ended and all of it was read."""
        running = self.process.poll() is None  # asked first: it may print its last and end between two looks
        ready, _, _ = select.select([self._ours], [], [], 1.0 if running else 0.0)
        if not ready:
            return running
        try:
            data = os.read(self._ours, 65536)
        except OSError:
            return False
        # A read may end in the middle of a character or of an escape code: either is whole with the next one.
        self.text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.text + self._decoder.decode(data))
        return bool(data)


def descendants(pid: int) -> dict[int, str]:
    """Return the processes that this one started, and those that they started: pid to command line."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    found: dict[int, str] = {}
    waiting: Sequence[int] = [pid]
    while waiting:
        waiting = [child for child, parent in parents.items() if parent in waiting]
        found.update((child, command_of(child)) for child in waiting)
    return found


def command_of(pid: int) -> str:
    """Return a process's command line, empty when it is gone or a zombie."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def still_running(processes: Mapping[int, str]) -> dict[int, str]:
    """Return those that still run: same pid, same program."""
    return {pid: command for pid, command in processes.items() if command and command_of(pid) == command}
