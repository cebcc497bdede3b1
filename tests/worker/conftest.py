"""One worker's inside, in this process, over the real store: kernel, journal and invocation without Celery."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from turnfleet.store import Keys, commands
from turnfleet.store.executor import AsyncExecutor
from turnfleet.store.records import Claim, NewDecision, NewRun
from turnfleet.wire.request import request_digest
from turnfleet_kernel import InvocationKernel, PlanSpec, compile_plan
from turnfleet_kernel.contracts.spec import plan_id
from turnfleet_kernel.testing import ScriptedModel
from turnfleet_worker import Registry, WorkerSettings
from turnfleet_worker.ending import Left
from turnfleet_worker.invocation import Invocation
from turnfleet_worker.workbench import Bench


@dataclass
class Shop:
    """A worker's inside. Each test fills its own registry; `claim()` and `work()` play the host's part."""

    executor: AsyncExecutor
    keys: Keys
    registry: Registry = field(default_factory=Registry)
    draining: bool = False
    numbers: Any = field(default_factory=lambda: itertools.count(1))

    def bench(self) -> Bench:
        """Give what invocations work with."""
        return Bench(
            kernel=InvocationKernel(),
            executor=self.executor,
            keys=self.keys,
            registry=self.registry,
            settings=WorkerSettings(),
            draining=lambda: self.draining,
        )

    async def enqueue(self, spec: PlanSpec, prompt: str = "go", run_id: str = "run") -> None:
        """Record a run."""
        request = {"prompt": prompt}
        identity = plan_id(spec)
        await self.executor.execute(
            commands.create(
                self.keys,
                NewRun(
                    run_id=run_id,
                    plan=spec.model_dump(mode="json", exclude_defaults=True),
                    plan_id=identity,
                    request=request,
                    digest=request_digest(identity, request),
                    queue="q",
                ),
            )
        )

    async def claim(self, run_id: str = "run") -> Claim:
        """Claim a queued run."""
        claimed = await self.executor.execute(
            commands.claim(
                self.keys,
                run_id,
                claim_id=f"claim-{next(self.numbers)}",
                worker="test",
                lease_ms=60_000,
                recorded=True,
            )
        )
        assert isinstance(claimed, Claim), claimed
        return claimed

    def invocation(self, claim: Claim) -> Invocation:
        """Prepare the invocation of a claim."""
        return Invocation(self.bench(), claim, compile_plan(PlanSpec.model_validate(claim.plan), self.registry))

    async def work(self, run_id: str = "run") -> Left:
        """Claim a run and run it to the end of the claim."""
        return await self.invocation(await self.claim(run_id)).run()

    async def lose(self, claim: Claim) -> None:
        """Let the lease run out, as if the worker had been killed. Where one lives, its beat may come in between."""
        shard = self.keys.shard(claim.run_id)
        for _ in range(20):
            await self.executor.client.hset(self.keys.record(claim.run_id), "lease", "1")
            await self.executor.client.zadd(f"{self.keys.prefix(shard)}due", {claim.run_id: 1})
            swept = await self.executor.execute(commands.sweep(self.keys, shard, replace_policy()))
            if swept.lost:
                return
        raise AssertionError(f"the lease of run {claim.run_id} was renewed each time")

    async def decide(self, **decisions: dict[str, Any]) -> None:
        """Decide the open interrupts of the run, in their order, with the decisions given."""
        status = await self.executor.execute(commands.status(self.keys, "run"))
        waiting = [each.id for each in status.interrupts if each.open]
        taken = [NewDecision(name, decision) for name, decision in zip(waiting, decisions.values(), strict=False)]
        await self.executor.execute(commands.resume(self.keys, "run", decisions=taken, by="alice"))

    async def events(self, run_id: str = "run") -> list[dict[str, Any]]:
        """Give all events of a run."""
        page = await self.executor.execute(commands.read_events(self.keys, run_id, count=10_000))
        assert [event["index"] for event in page.events] == list(range(len(page.events)))
        return list(page.events)

    async def kinds(self, run_id: str = "run") -> list[str]:
        """Give the kinds of events of a run, in order."""
        return [event["kind"] for event in await self.events(run_id)]

    async def journal(self, run_id: str = "run") -> list[str]:
        """Give the kinds of journal entries of a run, in order."""
        return [entry["k"] for entry in await self.executor.execute(commands.journal(self.keys, run_id))]


def replace_policy() -> Any:
    """Give a sweep's policy."""
    from turnfleet.store.records import SweepPolicy

    return replace(SweepPolicy(), reoffer_after_ms=60_000)


@pytest.fixture
async def shop(redis_url: str, fleet_name: str) -> AsyncIterator[Shop]:
    """Give a worker's inside over the tests' own Redis server."""
    executor = AsyncExecutor(redis_url)
    yield Shop(executor, Keys(fleet_name))
    await executor.aclose()
    # Leak gate: what an invocation started has ended with it.
    await asyncio.sleep(0)
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []


Scripted = Callable[..., ScriptedModel]
