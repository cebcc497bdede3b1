"""A fleet with signing keys, in this process but for its Redis: a client, a worker's host, the broker's messages."""

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import redis.asyncio

from turnfleet import AsyncFleet, PlanSpec, SigningKeys
from turnfleet.store import Keys, commands
from turnfleet.store.executor import AsyncExecutor
from turnfleet.wire import Envelope, sign_envelope
from turnfleet_kernel.testing import ScriptedModel, call
from turnfleet_worker import Registry, Reject, ToolContext, WorkerSettings, create_app
from turnfleet_worker.host import WorkerHost
from turnfleet_worker.pool.ports import Delivery

OLD, NEW = b"o" * 32, b"n" * 32
KEYS = SigningKeys({"new": NEW, "old": OLD})
OLD_KEYS = SigningKeys({"old": OLD})
NEW_KEYS = SigningKeys({"new": NEW})
PLAN = PlanSpec(name="desk", model="desk", tools=("refund", "hasty"))
QUICK: dict[str, Any] = {
    "lease_seconds": 30,
    "heartbeat_seconds": 0.2,
    "sweep_seconds": 0.1,
    "reoffer_after_seconds": 30,
}


@dataclass
class Site:
    """One fleet. `made` are the effects of its tools, `asked` the prompts that its models were asked with."""

    url: str
    name: str
    registry: Registry = field(default_factory=Registry)
    made: list[str] = field(default_factory=list)
    signing: SigningKeys | None = KEYS

    def __post_init__(self) -> None:
        """Fill the registry: a refund that finance approves, and one that is rejected when nobody does."""
        self.keys = Keys(self.name)
        self.client: Any = redis.asyncio.Redis.from_url(self.url)
        self.executor = AsyncExecutor(self.url)
        self.registry.model("desk", ScriptedModel([call("refund", "c1", amount=80), "done"]))
        self.registry.model("hasty", ScriptedModel([call("hasty", "c1", amount=80), "done"]))

        @self.registry.tool(approval=True, roles=("finance",))
        async def refund(amount: int, context: ToolContext) -> str:
            """Refund."""
            self.made.append(f"{context.run_id}:{amount}")
            return f"refunded {amount}"

        @self.registry.tool(approval=True, expires_in=0.2, on_expiry=Reject("nobody came"))
        async def hasty(amount: int, context: ToolContext) -> str:
            """Refund, if somebody decides at once."""
            self.made.append(f"{context.run_id}:{amount}")
            return f"refunded {amount}"

    async def close(self) -> None:
        """Close the connections."""
        await self.client.aclose()
        await self.executor.aclose()

    def fleet(self, signing: SigningKeys | None = KEYS) -> AsyncFleet:
        """Give a client with these keys."""
        return AsyncFleet(self.url, name=self.name, signing=signing, poll_interval=0.2)

    @asynccontextmanager
    async def host(self, signing: SigningKeys | None = KEYS, **settings: Any) -> AsyncIterator[WorkerHost]:
        """Run all of a worker process but Celery."""
        app: Any = create_app(
            self.registry, self.url, name=self.name, signing=signing, settings=WorkerSettings(**QUICK | settings)
        )
        host: WorkerHost = app.host_factory(app)
        await host.start()
        try:
            yield host
        finally:
            await host.stop(drain_seconds=0)

    async def messages(self) -> list[dict[str, Any]]:
        """Take the envelopes that wait on the fleet's queue."""
        taken: list[dict[str, Any]] = []
        async for name in self.client.scan_iter(f"turnfleet.{self.name}*"):
            if await self.client.type(name) != b"list":
                continue
            while message := await self.client.rpop(name):
                _, kwargs, _ = json.loads(base64.b64decode(json.loads(message)["body"]))
                taken.append(kwargs["envelope"])
        return taken

    async def deliver(self, host: WorkerHost, *envelopes: Any) -> list[dict[str, object] | Exception]:
        """Hand these messages to the host, else those that wait; give what came of each."""
        results: list[dict[str, object] | Exception] = []
        for envelope in envelopes or await self.messages():
            try:
                results.append(await host.handle(envelope, delivery(envelope["run_id"])))
            except Exception as error:  # noqa: BLE001 - a refused message is a failed task, whatever it raised
                results.append(error)
        return results

    async def offer(self, host: WorkerHost, run_id: str) -> dict[str, object] | Exception:
        """Hand in an offer of the run as the sweep makes it from the record: signed by the worker."""
        status = await self.executor.execute(commands.status(self.keys, run_id))
        envelope = Envelope(fleet=self.name, run_id=run_id, recorded=True, plan_id=status.plan_id, digest=status.digest)
        (result,) = await self.deliver(host, sign_envelope(self.signing, envelope).to_json())
        return result

    async def alter(self, run_id: str, **fields: str | None) -> None:
        """Write into a record as somebody does who got hold of its Redis; None takes a field away."""
        for name, value in fields.items():
            if value is None:
                await self.client.hdel(self.keys.record(run_id), name)
            else:
                await self.client.hset(self.keys.record(run_id), name, value)

    async def rewrite(self, run_id: str, kind: str, **fields: Any) -> None:
        """Rewrite the last journal entry of a kind."""
        key = self.keys.journal(run_id)
        entries = [json.loads(entry) for entry in await self.client.lrange(key, 0, -1)]
        place = max(place for place, entry in enumerate(entries) if entry["k"] == kind)
        await self.client.lset(key, place, json.dumps(entries[place] | fields))


def delivery(run_id: str) -> Delivery:
    """Give a message's delivery."""
    return Delivery(task_id=run_id, root_id=run_id, redelivered=False, hostname="here")


async def error_of(fleet: AsyncFleet, run_id: str) -> str:
    """Give the text of the failure of a run."""
    status = await fleet.run(run_id).status()
    assert (status.state, status.error is not None) == ("failed", True)
    return str(status.error)
