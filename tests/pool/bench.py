"""A test's view of a fleet: publish messages, watch Celery's events and the host's record, run workers."""

import base64
import itertools
import json
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import partial
from types import TracebackType
from typing import Any, Self, cast

import redis
from celery import Celery
from support.waiting import LIMIT_SECONDS, eventually
from support.worker_process import WorkerProcess

from turnfleet.wire.broker import TASK_NAME, celery_settings, default_queue

APP = "pool.apps.recording"


class Bench(AbstractContextManager["Bench"]):
    """`celery` is a plain client's app with the fleet's settings; `broker` and `record` are raw Redis clients."""

    def __init__(self, broker_url: str, fleet: str, *, record_url: str | None = None) -> None:
        self.fleet = fleet
        self.queue = default_queue(fleet)
        self.broker_url = broker_url
        self.record_url = record_url or broker_url
        self.celery = Celery(f"client-{fleet}", set_as_current=False)
        self.celery.conf.update(celery_settings(fleet, broker_url))
        self.broker = redis.Redis.from_url(broker_url)
        self.record = redis.Redis.from_url(self.record_url)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.celery.close()
        self.broker.close()
        self.record.close()

    def worker(self, *options: str, concurrency: int = 2, app: str = APP, **env: str) -> WorkerProcess:
        """Return a worker of this fleet, not yet started."""
        everything = {"BROKER_URL": self.broker_url, "RECORD_URL": self.record_url, "FLEET": self.fleet, **env}
        return WorkerProcess(app, concurrency=concurrency, options=options, env=everything)

    def send(self, run_id: str, *, task_id: str | None = None, **orders: object) -> None:
        """Publish a run as any Celery client would; `orders` go into the envelope."""
        self.publish({"envelope": {"run_id": run_id, **orders}}, task_id or run_id)

    def publish(self, kwargs: Mapping[str, object], task_id: str, **options: Any) -> None:
        """Publish `turnfleet.invoke` with any arguments and options of `send_task`."""
        self.celery.send_task(TASK_NAME, kwargs=dict(kwargs), task_id=task_id, queue=self.queue, **options)

    def push(self, message: Mapping[str, object] | bytes) -> None:
        """Put something onto the broker's list, as it is."""
        raw = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.broker.lpush(self.queue, raw)

    def raw_message(self, body: bytes, **changes: object) -> dict[str, object]:
        """Return a message in kombu's format, with parts of it replaced."""
        message: dict[str, object] = {
            "body": base64.b64encode(body).decode(),
            "content-type": "application/json",
            "content-encoding": "utf-8",
            "headers": {"id": "raw", "task": TASK_NAME, "lang": "test"},
            "properties": {
                "delivery_tag": "tag",
                "body_encoding": "base64",
                "delivery_info": {"exchange": "", "routing_key": self.queue},
                "delivery_mode": 2,
                "priority": 4,
            },
        }
        return message | changes

    def notes(self, what: str | None = None, **fields: object) -> list[dict[str, Any]]:
        """Return what the hosts recorded, oldest first, narrowed to a kind and to fields."""
        raw = cast("list[bytes]", self.record.lrange(f"{self.fleet}:record", 0, -1))
        wanted = fields if what is None else {"what": what, **fields}
        return [note for note in map(json.loads, raw) if wanted.items() <= note.items()]

    def wait_for(self, what: str, count: int = 1, **fields: object) -> list[dict[str, Any]]:
        """Wait until the hosts recorded something `count` times."""
        eventually(lambda: len(self.notes(what, **fields)) >= count, what=f"{count} times {what!r} {fields} recorded")
        return self.notes(what, **fields)

    def open(self, gate: str) -> None:
        """Let runs go on that wait at this gate, and all that come there later."""
        self.record.set(f"{self.fleet}:gate:{gate}", "open")

    def waiting(self) -> int:
        """Return how many messages lie in the fleet's queue, of every priority."""
        names = [self.queue, *(f"{self.queue}\x06\x16{step}" for step in range(1, 10))]
        return sum(int(self.broker.llen(name)) for name in names)

    def unacked(self) -> int:
        """Return how many messages were delivered and not acknowledged."""
        return int(self.broker.hlen(f"turnfleet.{self.fleet}.unacked"))

    def stats(self, worker: WorkerProcess) -> dict[str, Any]:
        """Return a worker's `inspect stats`."""
        return cast("dict[str, Any]", eventually(lambda: self.inspect(worker).stats())[worker.hostname])

    def tell(self, worker: WorkerProcess) -> "Told":
        """Give Celery's control commands, for this worker alone and answered by it."""
        return Told(self.celery, worker.hostname)

    def inspect(self, worker: WorkerProcess) -> Any:
        """Return Celery's `inspect`, asking this worker alone; its answers are None where none came in ten seconds."""
        return self.celery.control.inspect([worker.hostname], timeout=10)


class Told:
    """`told.pool_grow(2)` tells one worker to, and gives its answer: from then on it has happened."""

    def __init__(self, celery: Celery, hostname: str) -> None:
        self._celery = celery
        self._how: dict[str, Any] = {"destination": [hostname], "reply": True, "timeout": LIMIT_SECONDS}

    def __getattr__(self, command: str) -> Any:
        """Give the command; it takes what Celery's own takes."""
        return partial(getattr(self._celery.control, command), **self._how)


class EventWatch:
    """Celery's own picture of the fleet (what Flower builds on), fed by a thread for as long as the block lasts."""

    def __init__(self, bench: Bench) -> None:
        self.state: Any = bench.celery.events.State()
        self.log: list[dict[str, Any]] = []
        self._bench = bench
        self._over = threading.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(60), "the event receiver did not start"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(60)

    def count(self, task_id: str, kind: str) -> int:
        """Return how many events of a kind a task had."""
        return self.kinds(task_id).count(kind)

    def kinds(self, task_id: str) -> list[str]:
        """Return the kinds of a task's events, in order, those that a worker sent."""
        return [e["type"] for e in list(self.log) if e.get("uuid") == task_id and e["type"] != "task-sent"]

    def wait_for(self, task_id: str, kind: str, count: int = 1) -> None:
        """Wait until a task had `count` events of a kind."""
        eventually(lambda: self.count(task_id, kind) >= count, what=f"{count} times {kind} of {task_id}")

    def shown(self, task_id: str) -> str:
        """Return the state in which Flower shows the task."""
        return str(self.state.tasks[task_id].state)

    def _watch(self) -> None:
        with self._bench.celery.connection_for_read() as connection:
            receiver = self._bench.celery.events.Receiver(connection, handlers={"*": self._on_event})
            turns = itertools.count()

            def on_turn() -> None:
                # kombu subscribes in its first poll: from the second turn on nothing is missed.
                if next(turns) == 1:
                    self._ready.set()
                receiver.should_stop = self._over.is_set()

            receiver.on_iteration = on_turn
            receiver.run(safety_interval=0.2, wakeup=False)

    def _on_event(self, event: dict[str, Any]) -> None:
        self.state.event(event)
        self.log.append(event)
