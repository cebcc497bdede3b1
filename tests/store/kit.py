"""What the store's tests work with: a bench that runs commands on one fleet, and looks behind them."""

import inspect
import itertools
from collections.abc import Mapping
from typing import Any, TypeVar

from redis.asyncio import Redis

from turnfleet.store import Command, Keys, commands
from turnfleet.store.executor import AsyncExecutor, SyncExecutor
from turnfleet.store.records import Claim, Ending, NewRun, Snapshot, StoredInterrupt, SweepPolicy, Swept
from turnfleet.store.transitions import TERMINAL_STATES

T = TypeVar("T")

APPROVE = {"kind": "approve", "value": None}
REJECT = {"kind": "reject", "reason": "no"}
AT_ONCE = SweepPolicy(reoffer_after_ms=0, reoffer_cap_ms=0)
"""A policy under which whatever could be due is due, so that no test waits for a clock."""


NEVER_LATE = 4_102_444_800_000


class Bench:
    """A fleet of one test's own, over any executor; `look` is a client to see what lies in Redis."""

    def __init__(self, fleet: str, executor: AsyncExecutor | SyncExecutor, look: "Redis") -> None:
        self.keys = Keys(fleet, shards=4, first_look_ms=0)
        self.executor = executor
        self.look = look
        self._claims = itertools.count(1)

    async def __call__(self, command: Command[T]) -> T:
        """Run a command, with whichever executor this is."""
        answer = self.executor.execute(command)
        return await answer if inspect.isawaitable(answer) else answer

    async def create(self, run_id: str = "run", **changes: Any) -> str:
        """Write a record and return its run id."""
        await self(commands.create(self.keys, new_run(run_id, **changes)))
        return run_id

    async def claim(self, run_id: str = "run", lease_ms: int = 60_000, **options: Any) -> Claim:
        """Claim a run that can be claimed."""
        given: dict[str, Any] = {"claim_id": f"claim-{next(self._claims)}", "worker": "w1", "recorded": True} | options
        claim = await self(commands.claim(self.keys, run_id, lease_ms=lease_ms, **given))
        assert isinstance(claim, Claim)
        return claim

    async def running(self, run_id: str = "run", lease_ms: int = 60_000, **changes: Any) -> Claim:
        """Create a run and claim it."""
        return await self.claim(await self.create(run_id, **changes), lease_ms)

    async def paused(self, *interrupts: StoredInterrupt, run_id: str = "run", **changes: Any) -> Claim:
        """Create a run, claim it, and let it wait for `interrupts` (one approval when none is given)."""
        claim = await self.running(run_id, **changes)
        waiting = interrupts or (approval(),)
        await self(commands.pause(self.keys, claim, seq=1, interrupts=waiting))
        return claim

    async def failed(self, run_id: str = "run", **changes: Any) -> Claim:
        """Create a run that failed."""
        claim = await self.running(run_id, **changes)
        await self(commands.finish(self.keys, claim, seq=1, ending=ending(run_id, 0, "failed")))
        return claim

    async def sweep(self, run_id: str = "run", policy: SweepPolicy = AT_ONCE) -> Swept:
        """Sweep the shard of a run once."""
        return await self(commands.sweep(self.keys, self.keys.shard(run_id), policy, sent_ms=NEVER_LATE))

    async def status(self, run_id: str = "run") -> Snapshot:
        """Return a run's status."""
        return await self(commands.status(self.keys, run_id))

    async def kinds(self, run_id: str = "run") -> list[str]:
        """Return the kinds of all events of a run; their indexes have no hole."""
        page = await self(commands.read_events(self.keys, run_id, count=1_000))
        assert [event["index"] for event in page.events] == list(range(page.next_index))
        return [event["kind"] for event in page.events]

    async def journal(self, run_id: str = "run") -> list[bytes]:
        """Return a run's journal as it lies there."""
        entries: Any = await self.look.lrange(self.keys.journal(run_id), 0, -1)
        return list(entries)

    async def log(self, run_id: str = "run") -> list[tuple[bytes, bytes]]:
        """Return a run's event log as it lies there: entry ids and batches."""
        entries: Any = await self.look.xrange(self.keys.events(run_id))
        return [(number, fields[b"b"]) for number, fields in entries]

    async def expire_record(self, run_id: str) -> None:
        """Let an ended run's keys vanish now, as they do when their TTL is over."""
        for key in self.keys_of(run_id):
            assert await self.look.pttl(key) != -1
            await self.look.delete(key)

    def keys_of(self, run_id: str) -> list[str]:
        """Return the keys of one run."""
        keys = self.keys
        return [keys.record(run_id), keys.journal(run_id), keys.events(run_id), keys.interrupts(run_id)]

    async def dump(self) -> dict[bytes, tuple[Any, bool]]:
        """Return every key of the fleet with its content, and whether it has a TTL."""
        found = {}
        for pattern in (f"{{{self.keys.fleet}:*", f"{{{self.keys.fleet}}}*"):
            async for key in self.look.scan_iter(match=pattern, count=1000):
                found[key] = (await self._content(key), await self.look.pttl(key) >= 0)
        return found

    async def _content(self, key: bytes) -> Any:
        kind = await self.look.type(key)
        if kind == b"hash":
            return await self.look.hgetall(key)
        if kind == b"list":
            return await self.look.lrange(key, 0, -1)
        if kind == b"zset":
            return await self.look.zrange(key, 0, -1, withscores=True)
        if kind == b"stream":
            return await self.look.xrange(key)
        return await self.look.get(key)

    async def check(self) -> None:
        """Assert what holds at every moment: TTLs exactly on ended runs, and indexes that say what records say."""
        dump = await self.dump()
        for shard in range(self.keys.shards):
            self._check_shard(self.keys.prefix(shard).encode(), dump)

    def _check_shard(self, prefix: bytes, dump: Mapping[bytes, tuple[Any, bool]]) -> None:
        records = {key[len(prefix) + 2 :]: value[0] for key, value in dump.items() if key.startswith(prefix + b"r:")}
        for run, record in records.items():
            ended = record[b"state"].decode() in TERMINAL_STATES
            for kind in (b"r:", b"j:", b"e:", b"i:"):
                if prefix + kind + run in dump:
                    assert (prefix + kind + run, ended) == (prefix + kind + run, dump[prefix + kind + run][1])

        def members(index: bytes) -> set[bytes]:
            return {run for run, _ in dump.get(prefix + index, ((), False))[0]}

        live = {run for run, record in records.items() if record[b"state"].decode() not in TERMINAL_STATES}
        paused = {run for run, record in records.items() if record[b"state"] == b"paused"}
        assert members(b"due") == live
        assert members(b"open") == paused
        for key in dump:
            if key.startswith(prefix + b"s:"):
                state = key[len(prefix) + 2 :]
                there = {run for run, record in records.items() if record[b"state"] == state}
                assert members(b"s:" + state) & set(records) == there


def new_run(run_id: str = "run", **changes: Any) -> NewRun:
    """Return a run to be."""
    facts: dict[str, Any] = {
        "plan": {"name": "support", "tools": []},
        "plan_id": "p" * 64,
        "request": {"prompt": "Refund order 1001", "history": []},
        "digest": "d" * 64,
        "queue": "turnfleet.test",
    }
    return NewRun(run_id=run_id, **(facts | changes))


def event(run_id: str, index: int, kind: str, **payload: Any) -> dict[str, Any]:
    """Return an event as JSON."""
    return {"run_id": run_id, "index": index, "kind": kind, "time": 1764426000.0, **payload}


def ending(run_id: str, index: int, state: Any = "completed") -> Ending:
    """Return an ending as a worker brings it."""
    kinds = {"completed": "done", "failed": "error"}
    return Ending(
        state=state,
        event=event(run_id, index, kinds.get(state, state)),
        outcome={"text": "refunded", "messages": []} if state == "completed" else None,
        error="ValueError: no" if state == "failed" else None,
        usage={"input_tokens": 3},
    )


def approval(number: int = 1, **changes: Any) -> StoredInterrupt:
    """Return an approval that waits."""
    facts: dict[str, Any] = {
        "id": f"approval:c{number}",
        "kind": "approval",
        "payload": {"tool": "refund", "arguments": {"tags": [], "amount": 80.0}},
        "call_id": f"c{number}",
        "digest": f"args{number}",
    }
    return StoredInterrupt(**(facts | changes))
