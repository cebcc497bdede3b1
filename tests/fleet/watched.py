"""A fleet of one worker that a real Flower watches, shared by the tests of a file."""

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import redis
from fleet.conftest import PLAN, call, steps
from support.flower_process import FlowerProcess
from support.redis_server import RedisServer
from support.waiting import eventually
from support.worker_process import WorkerProcess

from turnfleet import Approve, Fleet, Run
from turnfleet.wire.broker import default_queue

SHOWS_CONTENT = "shows-content"
"""The queue of a second worker, which shows what runs are about."""


_fleets = itertools.count(1)


@dataclass(frozen=True)
class Watched:
    """The parts of it. `plain` is a Redis client beside the fleet: it opens gates and pushes raw messages."""

    name: str
    fleet: Fleet
    flower: FlowerProcess
    worker: WorkerProcess
    plain: redis.Redis

    @property
    def queue(self) -> str:
        """The fleet's own queue."""
        return default_queue(self.name)

    @property
    def gate(self) -> str:
        """The list that `wait_for` waits for."""
        return f"gate:{self.name}"

    def held(self, run_id: str, *after: Any, **options: Any) -> "Run[object]":
        """Start a run and wait until its tool waits at the gate."""
        prompt = steps([call("wait_for", key=self.gate)], *after)
        run: Run[object] = self.fleet.enqueue(PLAN, prompt, run_id=run_id, **options)
        eventually(lambda: f"wait_for:{run_id}" in self.marks(), what=f"{run_id} at the gate")
        return run

    def marks(self) -> str:
        """Give what models and tools noted."""
        return str(self.plain.lrange(f"marks:{self.name}", 0, -1))

    def paused(self, run_id: str, *after: Any, **options: Any) -> "Run[object]":
        """Start a run and wait until it waits for a person."""
        prompt = steps([call("refund", order_id="1001", amount=60)], *after)
        run: Run[object] = self.fleet.enqueue(PLAN, prompt, run_id=run_id, **options)
        eventually(lambda: run.status().state == "paused", what=f"{run_id} paused")
        return run

    def approve(self, run: "Run[object]") -> None:
        """Let a person approve what a run asks."""
        (waiting,) = run.interrupts()
        run.resume({waiting.id: Approve()}, by="alice", roles=("finance",))

    def told(self, what: str) -> Any:
        """Give what the worker tells Flower when asked; None where Flower had no answer in its one second."""
        told = self.flower.get(f"/api/workers?refresh=1&workername={self.worker.hostname}")
        return told.get(self.worker.hostname, {}).get(what)

    def task(self, task_id: str, state: str) -> dict[str, Any]:
        """Wait until Flower shows a task in a state, and give all that it says of it."""

        def shown() -> dict[str, Any] | None:
            task: dict[str, Any] | None = self.flower.find(task_id).get(task_id)
            return task if task is not None and task["state"] == state else None

        try:
            return eventually(shown)
        except AssertionError as error:
            error.add_note(f"Flower shows {self.flower.find(task_id)}")
            raise


@contextmanager
def watch(server: RedisServer, name: str, *, concurrency: int = 4, **env: str) -> Iterator[Watched]:
    """Start worker and Flower of a fleet, and end them."""
    name = f"{name}-{os.getpid()}-{next(_fleets)}"
    everything = {"TURNFLEET_REDIS_URL": server.url, "TURNFLEET_NAME": name, "PLANNED_REOFFER": "3600", **env}
    with (
        Fleet(server.url, name=name, poll_interval=0.5) as fleet,
        FlowerProcess("fleet.planned", env=everything) as flower,
        WorkerProcess("fleet.planned", concurrency=concurrency, env=everything) as worker,
        redis.Redis.from_url(server.url) as plain,
    ):
        eventually(lambda: worker.hostname in flower.get("/api/workers?status=1"), what="Flower sees the worker")
        yield Watched(name, fleet, flower, worker, plain)
