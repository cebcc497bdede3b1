"""A Redis and a worker for as long as one command runs, and nothing left afterwards."""

import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from turnfleet import Fleet
from turnfleet.errors import FleetUnavailable
from turnfleet.ids import new_id
from turnfleet_worker.local.embedded import EmbeddedRedis, open_redis
from turnfleet_worker.local.processes import Child, ChildFailedError, Children
from turnfleet_worker.local.signals import Signals

WORKER_READY_SECONDS = 60.0
STOP_SECONDS = 5.0


class Session:
    """Starts what a command needs. Leaving it ends every process and removes the folder of logs and data.

    The folder stays when a process failed, because the error names its log, and when `keep_logs` is set.
    """

    def __init__(self) -> None:
        self.signals = Signals()
        self.children = Children(self.signals, stop_seconds=STOP_SECONDS)
        self.folder = Path()
        self.keep_logs = False

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="turnfleet-"))
        self.signals.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            with self.signals.muted():
                self._leave(keep=self.keep_logs or (kind is not None and issubclass(kind, ChildFailedError)))
        finally:
            # A signal may have come in just before it was muted. Ending twice does no harm, ending never would.
            self.signals.__exit__()
            self.children.__exit__()

    def _leave(self, *, keep: bool) -> None:
        self.children.__exit__()
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)

    def start_redis(self, url: str | None, *, data: Path | None = None, at_usual_port: bool = False) -> EmbeddedRedis:
        """Return the Redis at `url`, else one started now; its data goes to `data`, else to the session's folder."""
        folder = self.folder if data is None else data
        folder.mkdir(parents=True, exist_ok=True)
        return open_redis(self.children, url=url, folder=folder, at_usual_port=at_usual_port)

    def start_worker(
        self, app: str, *, fleet: Fleet, concurrency: int, environment: Mapping[str, str], log: Path | None
    ) -> Child:
        """Start a Celery worker of the app module and wait until the fleet knows it (at most 60 seconds)."""
        before = {worker.get("worker") for worker in fleet.workers()}
        command = worker_command(app, concurrency=concurrency)
        child = self.children.start("The worker", command, log=log, environment=environment)

        def announced() -> bool:
            try:
                return any(worker.get("worker") not in before for worker in fleet.workers())
            except FleetUnavailable:
                return False

        child.wait_until(announced, seconds=WORKER_READY_SECONDS)
        return child


def worker_command(app: str, *, concurrency: int, options: Sequence[str] = ()) -> list[str]:
    """Return the command line of a Celery worker of this Python, under a name of its own unless the options say one."""
    command = [sys.executable, "-m", "celery", "-A", app, "worker", "-c", str(concurrency), "-l", "INFO"]
    if not any(option.startswith(("-n", "--hostname")) for option in options):
        # Two workers of one name on a machine answer for each other.
        command += ["-n", f"worker-{new_id()[:8]}@%h"]
    # Mingle waits a second for what other workers revoked; a cancelled run is in its record.
    return [*command, "--without-mingle", *options]
