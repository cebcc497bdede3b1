"""A real Flower process of the tests' own, behind a password, asked over its HTTP API."""

import base64
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

from support.ports import free_port
from support.waiting import eventually

TESTS = Path(__file__).resolve().parent.parent
COLUMNS = "name,uuid,state,result,received,worker"
"""With the result, which says what a finished turn led to (docs/how-to/monitoring.md)."""
USER, PASSWORD = "operator", "let-me-look"


class FlowerProcess:
    """`with FlowerProcess("fleet.planned", env={...}) as flower:` starts it on a free loopback port."""

    def __init__(self, app: str, *, env: Mapping[str, str]) -> None:
        self.port = free_port()
        self._folder = tempfile.TemporaryDirectory(prefix="turnfleet-flower-")
        self._log = Path(self._folder.name) / "log"
        self._command = [sys.executable, "-m", "celery", "-A", app, "flower", f"--port={self.port}"]
        self._command += ["--address=127.0.0.1", f"--tasks_columns={COLUMNS}"]
        self._env = {**os.environ, "PYTHONPATH": str(TESTS), "FLOWER_BASIC_AUTH": f"{USER}:{PASSWORD}", **env}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Where its pages begin, for somebody who knows the password."""
        return f"http://{USER}:{PASSWORD}@127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        """Everything that Flower wrote so far."""
        return self._log.read_text(errors="replace")

    def __enter__(self) -> Self:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._folder.name,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            eventually(self._answers, 120, what="Flower's API")
        except BaseException as error:
            error.add_note(f"Flower's log:\n{self._log.read_text(errors='replace')}")
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process, and remove its folder."""
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(60)
        self._folder.cleanup()

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, "Flower ended at once"
        try:
            self.get("/api/tasks")
        except OSError:
            return False
        return True

    def get(self, path: str, *, login: str | None = f"{USER}:{PASSWORD}") -> Any:
        """Give the JSON that the API answers with; HTTPError when it refuses."""
        return self._ask(path, None, login)

    def post(self, path: str, **form: object) -> Any:
        """Send a form to the API, and give the JSON of its answer."""
        return self._ask(path, urlencode(form).encode(), f"{USER}:{PASSWORD}")

    def _ask(self, path: str, body: bytes | None, login: str | None) -> Any:
        headers = {} if login is None else {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"}
        request = Request(f"http://127.0.0.1:{self.port}{path}", data=body, headers=headers)
        with urlopen(request, timeout=60) as answer:  # noqa: S310 - the scheme stands in the line above
            return json.loads(answer.read())

    def find(self, text: str) -> dict[str, dict[str, Any]]:
        """Give the tasks that Flower's search finds, by their ids."""
        found: dict[str, dict[str, Any]] = self.get(f"/api/tasks?search={quote(text)}")
        return found

    def states(self, run_id: str) -> dict[str, str]:
        """Give the states of a run's tasks, by their ids."""
        return {task_id: task["state"] for task_id, task in self.find(run_id).items()}
