"""A small fleet at work, whose Redis the test is going to hurt."""

import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fleet.conftest import call, steps
from fleet.helpers import check_stream
from support.lines import lines_so_far
from support.waiting import eventually
from support.worker_process import WorkerProcess

from turnfleet import Fleet, PlanSpec
from turnfleet.client.fleet import Run
from turnfleet.errors import FleetUnavailable

PLAN = PlanSpec(name="shop", model="planned", tools=("note", "nap", "pay", "wait_for"))
WHOLE = steps([call("note", text="before")], [call("nap", seconds=1)], [call("note", text="after")], "all done")
"""Four turns of the model and three effects, none of which may be repeated."""

EFFECTS = ("note:{}:call-0-0", "nap:{}:call-1-0", "note:{}:call-2-0")


class Site:
    """Workers and a client of one fleet. `url` is the Redis of both its store and its broker."""

    def __init__(self, url: str, name: str, broker_url: str | None = None) -> None:
        self.name = name
        self.folder = Path(tempfile.mkdtemp(prefix="turnfleet-site-"))
        self.fleet = Fleet(url, name=name, broker_url=broker_url, timeout=2, poll_interval=0.5)
        self._env = {"TURNFLEET_REDIS_URL": url, "TURNFLEET_NAME": name, "MARKS": str(self.folder / "marks")}
        self._env |= {"TURNFLEET_BROKER_URL": broker_url} if broker_url else {}
        self._stack = ExitStack()
        self.workers: list[WorkerProcess] = []

    def __enter__(self) -> Self:
        self._stack.enter_context(self.fleet)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)
        for left in self.folder.iterdir():
            left.unlink()
        self.folder.rmdir()

    def worker(self, *, concurrency: int = 8, **more: Any) -> WorkerProcess:
        """Start a worker; it is ended with the site."""
        env = self._env | more.pop("env", {})
        worker = WorkerProcess("faults.apps.shop", concurrency=concurrency, env=env, **more)
        self.workers.append(self._stack.enter_context(worker))
        return worker

    def marks(self, beginning: str = "") -> list[str]:
        """Give what models and tools did, in order."""
        return [line for line in lines_so_far(self.folder / "marks") if line.startswith(beginning)]

    def enqueue(self, *, prompt: str = WHOLE, **options: Any) -> Run[Any]:
        """Enqueue a run."""
        return self.fleet.enqueue(PLAN, prompt, **options)

    def insist(self, run_id: str, **options: Any) -> Run[Any]:
        """Enqueue as a careful producer does: under an id of its own, again until it was heard."""
        return eventually(lambda: self._try_to_enqueue(run_id, options), what=f"run {run_id} is enqueued")

    def _try_to_enqueue(self, run_id: str, options: dict[str, Any]) -> Run[Any] | None:
        try:
            return self.enqueue(run_id=run_id, **options)
        except FleetUnavailable:
            return None

    def check(self, runs: Sequence[Run[Any]], *, timeout: float = 120, effects: Sequence[str] = EFFECTS) -> None:
        """Assert that each run ended as planned, each effect once, one stream each, and that every worker lives."""
        for run in runs:
            assert run.result(timeout=timeout).text == "all done"
            check_stream(list(run.events(timeout=60)))
        names = {run.run_id for run in runs}
        done = (mark for mark in self.marks() if not mark.startswith("model:") and mark.split(":")[1] in names)
        made = Counter(done)
        meant = Counter(effect.format(name) for name in names for effect in effects)
        surplus, missing = dict(made - meant), dict(meant - made)
        states = {run.run_id: (run.status().attempts, run.status().losses) for run in runs}
        assert (surplus, missing) == ({}, {}), (surplus, missing, states, [worker.log for worker in self.workers])
        assert [worker.running for worker in self.workers] == [True] * len(self.workers)
        assert [worker.log.count("Unrecoverable error") for worker in self.workers] == [0] * len(self.workers)
