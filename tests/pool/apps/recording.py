"""A fleet app whose host does as its envelope says, and records into Redis what it saw.

Envelope: {"run_id", "seconds": how long it runs, "gate": what it waits for then, until the test opens it, "ending":
"return" | "raise" | "exit" | "ignore" | "stubborn" | "block" | "thread" | "reject" | "requeue", "claim": whether it
claims and accepts, "claim_gate": what it waits for before that}.
"""

import asyncio
import gc
import json
import os
import time
from collections.abc import Callable
from typing import Any

import redis.asyncio
from celery import Celery, signals
from celery.exceptions import Ignore, Reject

from turnfleet_worker.celery_app import build
from turnfleet_worker.pool import Delivery
from turnfleet_worker.pool.ports import SendEvent
from turnfleet_worker.settings import WorkerSettings

RECORD_URL = os.environ["RECORD_URL"]
FLEET = os.environ["FLEET"]


class RecordingHost:
    """A host without runs: its claim is one Redis key, its work is waiting."""

    def __init__(self) -> None:
        self.redis: redis.asyncio.Redis

    def info(self) -> dict[str, Any]:
        """Say something that a test can find."""
        return {"host-says": "hello"}

    def see_pool(self, info: Callable[[], Any], send_event: SendEvent) -> None:
        """Have no use for it."""

    async def start(self) -> None:
        """Connect."""
        self.redis = redis.asyncio.Redis.from_url(RECORD_URL)
        await self.note("start")

    async def stop(self, *, drain_seconds: float) -> None:
        """Disconnect."""
        await self.note("stop", drain_seconds=round(drain_seconds, 1))
        await self.redis.aclose()

    async def revoke(self, task_id: str) -> None:
        """Note it."""
        await self.note("revoked", run=task_id)

    def drain(self) -> None:
        """Note it where a test can see it without Redis."""
        print("host: drain")  # noqa: T201 - the worker's log is what the test reads

    async def handle(self, envelope: Any, delivery: Delivery) -> dict[str, object]:
        """Do as the envelope says."""
        run = envelope["run_id"]
        await self.note("seen", run=run, task=delivery.task_id, cancelled=delivery.cancelled)
        if delivery.cancelled:
            raise Ignore
        await self.pass_gate(envelope.get("claim_gate"))
        if envelope.get("ending") == "requeue" and not delivery.redelivered:
            raise Reject(requeue=True)
        if envelope.get("claim", True):
            await self.claim(run, delivery)
        await self.note("started", run=run, root=delivery.root_id, redelivered=delivery.redelivered)
        try:
            await self.work(envelope)
        except asyncio.CancelledError:
            await self.note("cancelled", run=run, asked=delivery.cancelled)
            raise
        await self.note("ended", run=run, frozen=gc.get_freeze_count(), young=gc.get_threshold()[0])
        return {"state": envelope.get("state", "completed"), "run_id": run}

    async def claim(self, run: str, delivery: Delivery) -> None:
        """Claim and accept, or find nothing to do."""
        if not await self.redis.set(f"{FLEET}:claim:{run}", delivery.task_id, nx=True):
            raise Ignore
        delivery.accept()
        delivery.accept()

    async def work(self, envelope: Any) -> None:
        """Wait, then end in one of the ways an invocation may end."""
        ending = envelope.get("ending", "return")
        if ending == "block":
            time.sleep(envelope["seconds"])  # noqa: ASYNC251 - a tool that blocks the loop is what this plays
        await asyncio.sleep(envelope.get("seconds", 0))
        await self.pass_gate(envelope.get("gate"))
        if ending == "stubborn":
            await self.stay()
        if ending == "raise":
            raise ValueError("the model went home")
        if ending == "exit":
            raise SystemExit(3)
        if ending == "ignore":
            raise Ignore
        if ending == "reject":
            raise Reject("not for this fleet", requeue=False)
        if ending == "thread":
            await asyncio.to_thread(time.sleep, 300)

    async def pass_gate(self, name: str | None) -> None:
        """Wait until the test opens a gate."""
        while name is not None and not await self.redis.exists(f"{FLEET}:gate:{name}"):  # noqa: ASYNC110 - of a process
            await asyncio.sleep(0.02)

    async def stay(self) -> None:
        """Ignore every cancellation for five minutes."""
        ends = time.monotonic() + 300
        while time.monotonic() < ends:
            try:
                await asyncio.sleep(1)
            except asyncio.CancelledError:
                continue

    async def note(self, what: str, **more: object) -> None:
        """Append to the record."""
        entry = json.dumps({"what": what, "pid": os.getpid(), **more})
        await self.redis.rpush(f"{FLEET}:record", entry)


def make_host(_: Celery) -> RecordingHost:
    """Make the host of this process."""
    return RecordingHost()


settings = WorkerSettings(
    drain_seconds=float(os.environ.get("DRAIN", "20")), visibility_seconds=float(os.environ.get("VISIBILITY", "120"))
)
app = build(make_host, fleet=FLEET, broker_url=os.environ["BROKER_URL"], settings=settings)
if "PREFETCH" in os.environ:
    app.conf.worker_disable_prefetch = False  # as on a broker that cannot do without


@signals.task_prerun.connect
def on_prerun(task_id: str, **_: object) -> None:
    """Show in the log that the signal came."""
    print(f"prerun {task_id}")  # noqa: T201 - the worker's log is what the test reads


@signals.task_postrun.connect
def on_postrun(task_id: str, state: str, **_: object) -> None:
    """Show in the log that the signal came."""
    print(f"postrun {task_id} {state}")  # noqa: T201 - the worker's log is what the test reads


@app.task(name="plain.add")
def add(left: int, right: int) -> int:
    """Play a user's own task on the same app."""
    return left + right


@app.task(name="plain.hang")
def hang(seconds: float) -> None:
    """Play a user's own task that is stuck in a call."""
    time.sleep(seconds)
