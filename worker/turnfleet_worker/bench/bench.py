"""One bench from its start to its report: what it needs is started, and nothing of it is left."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from turnfleet import Fleet
from turnfleet.ids import new_id
from turnfleet.store.sync import SyncExecutor
from turnfleet.wire.broker import default_queue
from turnfleet.wire.broker_url import broker_place
from turnfleet.wire.connecting import producer_app
from turnfleet_worker.bench import bare
from turnfleet_worker.bench.measuring import SINGLES, Budget, Measuring, in_turn, publish_bare, work_off_bare
from turnfleet_worker.bench.place import OWN_PREFIX, Place, clear_broker, sweep_up
from turnfleet_worker.bench.report import Latency, Rate, Report
from turnfleet_worker.local.embedded import EmbeddedRedis
from turnfleet_worker.local.figures import versions
from turnfleet_worker.local.session import Session, worker_command

APP = "turnfleet_worker.bench.fleet"
BARE_APP = "turnfleet_worker.bench.bare"
PIECES_A_RUN = 5
"""Events of the streaming run for each run of the backlog."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What may be asked for. `seconds` bounds all measurements together; `bare`: compare with bare Celery."""

    runs: int
    seconds: float
    workers: int
    concurrency: int
    redis: str | None
    broker: str | None
    fleet: str | None
    key_prefix: str
    bare: bool


class Bench:
    """Measures a fleet that it makes. `tell` hears what is being measured, and how far that is."""

    def __init__(self, options: Options, session: Session, tell: Callable[[str, int, int], None]) -> None:
        self._options = options
        self._session = session
        self._tell = tell
        self._own = f"{OWN_PREFIX}{new_id()[:12]}"

    def run(self) -> Report:
        """Do it.

        Raises `FleetInUse`, `RedisMissingError` without a server, `ChildFailedError` when no worker can be started.
        """
        options = self._options
        began = time.monotonic()
        redis = self._session.start_redis(options.redis)
        self._redis_url = redis.url
        name = options.fleet or self._own
        budget = Budget(began + options.seconds, self._tell)
        executor = SyncExecutor(redis.url)
        try:
            place = Place(executor, name, options.key_prefix)
            place.require_empty()
            figures, unmeasured = self._measure(redis, place, budget)
            info = executor.clients()[0].info("server")
        finally:
            executor.close()
        server = "valkey-server" if "valkey_version" in info else "redis-server"
        return Report(
            figures=tuple(figures),
            unmeasured=tuple(unmeasured),
            seconds=time.monotonic() - began,
            workers=options.workers,
            concurrency=options.concurrency,
            cores=os.cpu_count() or 1,
            redis="given" if options.redis else "own",
            versions=versions(server, str(info.get("valkey_version") or info["redis_version"])),
        )

    def _measure(self, redis: EmbeddedRedis, place: Place, budget: Budget) -> tuple[list[Rate | Latency], list[str]]:
        options, runs = self._options, self._options.runs
        broker = options.broker or redis.url
        singles = min(SINGLES, runs)
        with Fleet(redis.url, name=place.name, broker_url=options.broker, key_prefix=options.key_prefix) as fleet:
            measuring = Measuring(fleet, place, budget)
            try:
                before, missed = in_turn(
                    [
                        ("enqueue", lambda: measuring.enqueue_singly(singles)),
                        ("enqueue_many", lambda: measuring.enqueue_many(runs)),
                    ]
                )
                self._start_workers(redis, fleet, place.name)
                after, left = in_turn(
                    [
                        ("runs", lambda: measuring.work_off(runs + singles)),
                        ("enqueue to first event", measuring.enqueue_to_first_event),
                        ("resume to first event", measuring.resume_to_first_event),
                        ("events", lambda: measuring.events(runs * PIECES_A_RUN)),
                    ]
                )
            finally:
                self._end_workers()
                self._tidy(place, measuring.made, broker)
        compared, apart = self._compare(broker, runs, budget) if options.bare else ([], [])
        return [*before, *after, *compared], [*missed, *left, *apart]

    def _start_workers(self, redis: EmbeddedRedis, fleet: Fleet, name: str) -> None:
        told = {
            "TURNFLEET_REDIS_URL": redis.url,
            "TURNFLEET_NAME": name,
            "TURNFLEET_KEY_PREFIX": self._options.key_prefix,
        }
        if self._options.broker:
            told["TURNFLEET_BROKER_URL"] = self._options.broker
        for number in range(self._options.workers):
            self._tell("starting workers", number, self._options.workers)
            log = self._session.folder / f"worker-{number}.log"
            self._session.start_worker(
                APP, fleet=fleet, concurrency=self._options.concurrency, environment=told, log=log
            )

    def _end_workers(self) -> None:
        for child in self._session.children.all:
            if child.name == "The worker":
                self._session.children.end(child)

    def _tidy(self, place: Place, made: list[str], broker: str) -> None:
        with self._session.signals.muted():
            place.forget(made)
            if place.name == self._own:
                clear_broker(producer_app(broker, place.name, self._options.key_prefix), default_queue(place.name))
                sweep_up(self._servers, self._own, self._options.key_prefix)

    @property
    def _servers(self) -> set[str]:
        """The Redis servers on which something of ours may be left."""
        broker = self._options.broker
        return {self._redis_url, *([broker] if broker and broker_place(broker).redis else [])}

    def _compare(self, broker: str, tasks: int, budget: Budget) -> tuple[list[Rate | Latency], list[str]]:
        """Measure bare Celery on the same broker, after the fleet is gone."""
        processes = os.cpu_count() or 1
        queue = f"{self._own}.bare"
        app = bare.build(broker, queue, self._options.key_prefix)
        try:
            published, missed = in_turn([("bare publish", lambda: publish_bare(app, tasks, budget))])
            if missed:
                return published, ["bare publish", "bare tasks"]
            with self._stock_worker(broker, queue, processes):
                worked, left = in_turn([("bare tasks", lambda: work_off_bare(app, tasks, processes, budget))])
            return [*published, *worked], left
        finally:
            with self._session.signals.muted():
                clear_broker(app, queue)
                sweep_up(self._servers, self._own, self._options.key_prefix)
                app.close()

    @contextmanager
    def _stock_worker(self, broker: str, queue: str, processes: int) -> Iterator[None]:
        child = self._session.children.start(
            "Bare Celery",
            worker_command(BARE_APP, concurrency=processes),
            log=self._session.folder / "bare.log",
            environment={
                "TURNFLEET_BROKER_URL": broker,
                "TURNFLEET_KEY_PREFIX": self._options.key_prefix,
                bare.QUEUE_VARIABLE: queue,
            },
        )
        try:
            yield
        finally:
            self._session.children.end(child)
