"""A real Flower process of the tests' own, asked over its HTTP API."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen

from support.redis_server import free_port
from support.waiting import eventually

TESTS = Path(__file__).resolve().parent.parent


class FlowerProcess:
    """`with FlowerProcess("fleet.planned", env={...}) as flower:` starts it on a free loopback port."""

    def __init__(self, app: str, *, env: Mapping[str, str]) -> None:
        self.port = free_port()
        self._folder = tempfile.TemporaryDirectory(prefix="turnfleet-flower-")
        self._command = [sys.executable, "-m", "celery", "-A", app, "flower", f"--port={self.port}"]
        self._command += ["--address=127.0.0.1"]
        self._env = {**os.environ, "PYTHONPATH": str(TESTS), "FLOWER_UNAUTHENTICATED_API": "true", **env}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command,
            cwd=self._folder.name,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        eventually(self._answers, 40, what="Flower's API")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        self._folder.cleanup()

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, "Flower ended at once"
        try:
            self.get("/api/tasks")
        except (URLError, ConnectionError):
            return False
        return True

    def get(self, path: str) -> Any:
        """Give the JSON that the API answers with."""
        with urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
            return json.loads(answer.read())

    def find(self, text: str) -> dict[str, dict[str, Any]]:
        """Give the tasks that Flower's search finds, by their ids."""
        found: dict[str, dict[str, Any]] = self.get(f"/api/tasks?search={quote(text)}")
        return found
