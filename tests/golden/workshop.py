"""Making a golden file of a run, putting it back into a store, and going on with it: one worker's inside, no Celery."""

import asyncio
import itertools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from golden.fleet import golden_registry
from golden.scenarios import Scenario, Stop
from support.waiting import GLANCE_SECONDS

from turnfleet.store import Keys, commands
from turnfleet.store.executor import AsyncExecutor
from turnfleet.store.records import Claim, NewDecision, NewRun, SweepPolicy
from turnfleet.wire.request import request_digest
from turnfleet_kernel import InvocationKernel, PlanSpec, compile_plan
from turnfleet_kernel.contracts.record import PauseRecord
from turnfleet_kernel.contracts.spec import plan_id
from turnfleet_kernel.conversation import ListConversation
from turnfleet_kernel.testing import CountingIds, ManualClock
from turnfleet_worker import Registry, WorkerSettings
from turnfleet_worker.ending import Left, Verdict
from turnfleet_worker.fold import fold
from turnfleet_worker.invocation import Invocation
from turnfleet_worker.workbench import Bench

TERMINAL = {"end": "completed", "cancelled": "cancelled", "expired": "expired"}
MOMENT_MS = 1_764_374_400_000


@dataclass
class Workshop:
    """A store, and workers of the golden fleet over it."""

    executor: AsyncExecutor
    keys: Keys
    draining: bool = False
    _claims: Any = field(default_factory=lambda: itertools.count(1))

    # -- making

    async def make(self, scenario: Scenario) -> dict[str, Any]:
        """Run a scenario up to where it is left, write that down, go on to its end, and write that down, too."""
        name = scenario.name
        await self._enqueue(scenario)
        for stop in scenario.stops:
            await self._stop(name, stop)
        await self._decide(name, scenario.decided)
        left = normal(await self._left(name))
        file: dict[str, Any] = {
            "name": name,
            "left": left,
            "folded": folded(name, left).model_dump(mode="json"),
            "decide": list(scenario.decide),
        }
        if left["record"]["state"] not in TERMINAL.values():
            await self.go_on(name, scenario.decide)
        return file | {"ends": normal(await self.ends(name))}

    async def _enqueue(self, scenario: Scenario) -> None:
        identity = plan_id(scenario.spec)
        new = NewRun(
            run_id=scenario.name,
            plan=scenario.spec.model_dump(mode="json", exclude_defaults=True),
            plan_id=identity,
            request=scenario.body,
            digest=request_digest(identity, scenario.body),
            queue="q",
            tenant="acme",
            metadata=scenario.request.get("metadata"),
            expires_ms=1 if scenario.stops == ("expired",) else None,
        )
        await self.executor.execute(commands.create(self.keys, new))

    async def _stop(self, run_id: str, stop: Stop) -> None:
        match stop:
            case "new":
                return
            case "end" | "pause":
                assert (await self.work(run_id)).state == {"end": "completed", "pause": "paused"}[stop]
            case "lost":
                await self._lose(run_id)
            case "released":
                await self._hand_over(run_id)
            case "failed":
                assert (await self.work(run_id, golden_registry(down=True))).state == "failed"
                await self.executor.execute(commands.retry(self.keys, run_id))
            case "cancelled":
                await self.executor.execute(commands.cancel(self.keys, run_id, reason="no longer needed"))
            case "expired":
                await self._sweep(run_id)

    async def _lose(self, run_id: str) -> None:
        """Let a worker die with a call, or an answer, under way; all that it wrote before is written."""
        waiting = asyncio.Event()
        claim = await self._claim(run_id)
        invocation = self._invocation(claim, golden_registry(hold=True, held=waiting.set))
        task = asyncio.ensure_future(invocation.run())
        await waiting.wait()
        await self._until_quiet(run_id)
        client = self.executor.client
        await client.hset(self.keys.record(run_id), "lease", "1")
        await client.zadd(f"{self.keys.prefix(self.keys.shard(run_id))}due", {run_id: 1})
        await self._sweep(run_id)
        invocation.stop(Verdict.LOST)
        assert (await task).state == "lost"

    async def _until_quiet(self, run_id: str) -> None:
        """Wait until what the run's writer had to say lies in the store: two looks see the same."""
        seen, client = (-1, -1), self.executor.client
        while True:
            now = (
                await client.llen(self.keys.journal(run_id)),
                await client.xlen(self.keys.events(run_id)),
            )
            if now == seen and now[1] > 0:
                return
            seen = now
            await asyncio.sleep(GLANCE_SECONDS * 5)

    async def _hand_over(self, run_id: str) -> None:
        self.draining = False
        claim = await self._claim(run_id)
        invocation = self._invocation(claim, golden_registry(), draining_after=2)
        assert (await invocation.run()).state == "queued"

    async def _left(self, run_id: str) -> dict[str, Any]:
        """Give a run as it lies in Redis: hashes as texts, journal and events as JSON."""
        client: Any = self.executor.client
        keys = self.keys
        record = await client.hgetall(keys.record(run_id))
        interrupts = await client.hgetall(keys.interrupts(run_id))
        batches = await client.xrange(keys.events(run_id))
        return {
            "record": {name.decode(): value.decode() for name, value in sorted(record.items())},
            "interrupts": {name.decode(): value.decode() for name, value in sorted(interrupts.items())},
            "journal": [json.loads(each) for each in await client.lrange(keys.journal(run_id), 0, -1)],
            "events": [event for _, fields in batches for event in json.loads(fields[b"b"])],
        }

    # -- going on

    async def restore(self, file: dict[str, Any]) -> None:
        """Put a run back as its release left it."""
        client, keys, name, left = self.executor.client, self.keys, file["name"], file["left"]
        await client.hset(keys.record(name), mapping=left["record"])
        if left["interrupts"]:
            await client.hset(keys.interrupts(name), mapping=left["interrupts"])
        if left["journal"]:
            await client.rpush(keys.journal(name), *(json.dumps(entry) for entry in left["journal"]))
        for event in left["events"]:
            await client.xadd(keys.events(name), {"b": json.dumps([event])}, id=f"0-{event['index'] + 1}")
        prefix, created = keys.prefix(keys.shard(name)), int(left["record"]["created"])
        await client.zadd(f"{prefix}s:{left['record']['state']}", {name: created})
        await client.zadd(f"{prefix}t:acme", {name: created})
        await client.zadd(f"{prefix}due", {name: created})

    async def go_on(self, run_id: str, decide: Sequence[dict[str, Any]]) -> None:
        """Decide what is open and run to the end of the next invocation."""
        await self._decide(run_id, decide)
        await self.work(run_id)

    async def ends(self, run_id: str) -> dict[str, Any]:
        """Give what a run came to."""
        seen = await self.executor.execute(commands.outcome(self.keys, run_id))
        return {"state": seen.state, "outcome": seen.outcome, "error": seen.error, "usage": seen.usage}

    async def events(self, run_id: str) -> list[dict[str, Any]]:
        """Give all events of a run."""
        page = await self.executor.execute(commands.read_events(self.keys, run_id, count=10_000))
        return list(page.events)

    async def work(self, run_id: str, registry: Registry | None = None) -> Left:
        """Claim a run and work on it to the end of the claim."""
        return await self._invocation(await self._claim(run_id), registry or golden_registry()).run()

    async def _decide(self, run_id: str, decisions: Sequence[dict[str, Any]]) -> None:
        if not decisions:
            return
        status = await self.executor.execute(commands.status(self.keys, run_id))
        waiting = [each for each in status.interrupts if each.open]
        taken = [NewDecision(each.id, said) for each, said in zip(waiting, decisions, strict=True)]
        await self.executor.execute(
            commands.resume(self.keys, run_id, decisions=taken, by="alice", roles=("finance",), decision_id="first")
        )

    async def _claim(self, run_id: str) -> Claim:
        claimed = await self.executor.execute(
            commands.claim(
                self.keys,
                run_id,
                claim_id=f"claim-{next(self._claims)}",
                worker="w",
                lease_ms=60_000,
                recorded=True,
            )
        )
        assert isinstance(claimed, Claim), claimed
        return claimed

    def _invocation(self, claim: Claim, registry: Registry, *, draining_after: int | None = None) -> Invocation:
        looks = itertools.count(1)
        bench = Bench(
            kernel=InvocationKernel(),
            executor=self.executor,
            keys=self.keys,
            registry=registry,
            settings=WorkerSettings(),
            draining=lambda: draining_after is not None and next(looks) > draining_after,
        )
        spec = PlanSpec.model_validate(claim.plan)
        return Invocation(bench, claim, compile_plan(spec, registry, clock=ManualClock(), ids=CountingIds()))

    async def _sweep(self, run_id: str) -> None:
        await self.executor.execute(commands.sweep(self.keys, self.keys.shard(run_id), SweepPolicy()))


def folded(run_id: str, left: dict[str, Any]) -> PauseRecord:
    """Fold a run's journal and events as a worker does that claims it."""
    return fold(
        left["journal"],
        left["events"],
        conversation=ListConversation(),
        run_id=run_id,
        plan_id=left["record"]["plan_id"],
        ran_seconds=0.0,
        next_index=int(left["record"]["next"]),
    ).record


_DIGITS = r"-?[0-9][0-9.e+-]*"
_RULES = (
    (re.compile(rf'(\\*"(?:duration_ms|ran)\\*": ?){_DIGITS}'), r"\g<1>1.0"),
    (re.compile(rf'(\\*"time\\*": ?){_DIGITS}'), rf"\g<1>{MOMENT_MS / 1000}"),
    (re.compile(r"\b1[0-9]{12}\b"), str(MOMENT_MS)),
    (re.compile(r'("(?:ran|seq|past_seq)": ?")[0-9]+'), r"\g<1>9"),
    (re.compile(r"\bclaim-[0-9]+\b"), "claim-1"),
)


def normal(value: Any) -> Any:
    """Give a value without what differs from run to run: times, durations, and into how many writes it was cut."""
    text = json.dumps(value, sort_keys=True)
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return json.loads(text)
