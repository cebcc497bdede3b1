"""What many runs at once cost the store: the measured numbers of docs/design/scale.md (DESIGN 8).

`python tests/benchmarks/scale.py --paused 20000 --running 2000` prints the table. It starts a Redis server of its own.
One run is really worked on, by a worker's inside, until it waits for a person; the others are copies of what it left,
written by the same transitions that a worker writes by. Bytes are the server's own count. Times are processor
time, the client's and the server's, with few runs and with many.
"""

import argparse
import asyncio
import json
import platform
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import redis

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.inside import LEASE_MS, claimed, run_of, worked_on

from turnfleet import AsyncFleet
from turnfleet.store import Keys, commands
from turnfleet.store.executor import AsyncExecutor
from turnfleet.store.records import ClaimRef, NewRun, StoredInterrupt, SweepPolicy
from turnfleet_kernel import (
    ModelTurn,
    PlanLimits,
    PlanSpec,
    ToolRequest,
    UsageDelta,
)
from turnfleet_kernel.testing import ScriptedModel
from turnfleet_worker import Registry

ROUNDS = 9
TURN_WORDS = 40
RESULT_BYTES = 500
AT_ONCE = 64
REPEATS = 9


def turn(number: int) -> ModelTurn:
    """Give a turn that says forty words and asks for one call; the last one's wants an approval."""
    text = " ".join(f"word{number}" for _ in range(TURN_WORDS))
    name = "refund" if number == ROUNDS else "look"
    usage = UsageDelta(input_tokens=1000 + number, output_tokens=TURN_WORDS, requests=1)
    return ModelTurn(text, usage, "tool_calls", (ToolRequest(f"call_{number:024x}", name, {"order": "1001"}),))


def shop() -> tuple[Registry, PlanSpec]:
    """Give the registry and the plan of the run that is copied."""
    registry = Registry()
    registry.model("talker", ScriptedModel(list(map(turn, range(ROUNDS + 1)))))

    @registry.tool(idempotent=True)
    async def look(order: str) -> str:
        """Look an order up."""
        return f"order {order}: ".ljust(RESULT_BYTES, "y")

    @registry.tool(approval=True, roles=("finance",))
    async def refund(order: str) -> str:
        """Refund an order."""
        return f"refunded {order}"

    return registry, PlanSpec(
        name="support",
        model="talker",
        tools=("look", "refund"),
        instructions="Help.",
        limits=PlanLimits(max_model_rounds=ROUNDS + 1),
    )


@dataclass(frozen=True)
class Pattern:
    """What one paused run left: its definition, its journal, its events as they were batched, and its interrupts."""

    run: NewRun
    entries: Sequence[dict[str, Any]]
    batches: Sequence[Sequence[dict[str, Any]]]
    interrupts: Sequence[StoredInterrupt]


async def work_on_one(executor: AsyncExecutor, keys: Keys) -> Pattern:
    """Let a worker's inside take one run to its pause."""
    registry, spec = shop()
    run = run_of(spec, "the-pattern", "Refund order 1001")
    left = await worked_on(executor, keys, registry, spec, run)
    assert left.state == "paused", left
    entries = await executor.execute(commands.journal(keys, run.run_id))
    log: Any = await executor.client.xrange(keys.events(run.run_id))
    waiting = (await executor.execute(commands.status(keys, run.run_id))).interrupts
    return Pattern(run, entries, [json.loads(fields[b"b"]) for _, fields in log], waiting)


async def copy(executor: AsyncExecutor, keys: Keys, pattern: Pattern, run_id: str, *, pause: bool) -> ClaimRef:
    """Write what the pattern left under another run id, batch by batch; without `pause`, it is left running."""
    claim = await claimed(executor, keys, replace(pattern.run, run_id=run_id))
    *before, last = [[{**event, "run_id": run_id} for event in batch] for batch in pattern.batches]
    share = -(-len(pattern.entries) // len(before))
    for number, batch in enumerate(before):
        entries = pattern.entries[number * share : (number + 1) * share]
        await executor.execute(commands.step(keys, claim, seq=number + 1, entries=entries, events=batch))
    if pause:
        await executor.execute(
            commands.pause(keys, claim, seq=len(before) + 1, events=last, interrupts=pattern.interrupts)
        )
    return claim.ref


async def many(count: int, what: str, make: Callable[[int], Coroutine[Any, Any, ClaimRef]]) -> list[ClaimRef]:
    """Make many runs, some at once, saying how far it is."""
    made: list[ClaimRef] = []
    while len(made) < count:
        part = range(len(made), min(count, len(made) + AT_ONCE))
        made += await asyncio.gather(*map(make, part))
        sys.stderr.write(f"\r{what}: {len(made):,} of {count:,} ")
    sys.stderr.write("\n")
    return made


@dataclass(frozen=True)
class Spent:
    """Processor time in milliseconds: of this process, and of the server."""

    client: float
    server: float

    def __str__(self) -> str:
        """Show both."""
        return f"{self.client:.2f} + {self.server:.2f}"


class Scale:
    """A fleet that is filled, and looked at before and after."""

    def __init__(self, executor: AsyncExecutor, fleet: AsyncFleet) -> None:
        self._executor = executor
        self._fleet = fleet
        self._keys = Keys("scale")
        self._beating: list[ClaimRef] = []

    async def bytes_used(self) -> int:
        """Say what the server holds, by its own count, without its overhead for clients."""
        memory: Any = await self._executor.client.info("memory")
        return int(memory["used_memory_dataset"])

    async def cost(self, ask: Callable[[], Awaitable[None]]) -> Spent:
        """Give the processor time of what is asked."""
        await ask()
        began = await self._processors()
        for _ in range(REPEATS):
            await ask()
        ended = await self._processors()
        return Spent((ended.client - began.client) / REPEATS, (ended.server - began.server) / REPEATS)

    async def _processors(self) -> Spent:
        server: Any = await self._executor.client.info("cpu")
        return Spent(time.process_time() * 1000, (server["used_cpu_user"] + server["used_cpu_sys"]) * 1000)

    async def page(self) -> None:
        """Read the newest fifty paused runs."""
        assert len(await self._fleet.runs(state="paused", limit=50)) == 50

    async def inbox(self) -> None:
        """Read fifty waiting runs' interrupts of a role."""
        assert len(await self._fleet.interrupts(role="finance", limit=50)) == 50

    async def sweep(self) -> None:
        """Sweep every shard, one after the other, as a worker does; nothing is due."""
        for shard in range(self._keys.shards):
            swept = await self._executor.execute(commands.sweep(self._keys, shard, SweepPolicy()))
            assert not swept.offers
            assert swept.lost == 0

    async def beat(self) -> None:
        """Renew all leases, shard by shard."""
        shards: dict[int, list[ClaimRef]] = {}
        for ref in self._beating:
            shards.setdefault(self._keys.shard(ref.run_id), []).append(ref)
        beats = await self._executor.execute_many(
            [commands.beat(self._keys, refs, lease_ms=LEASE_MS) for refs in shards.values()]
        )
        assert all(isinstance(each, dict) and all(beat.alive for beat in each.values()) for each in beats)

    async def looked_at(self) -> dict[str, Spent]:
        """Measure what everybody does all the time."""
        return {
            "a page of 50 paused runs": await self.cost(self.page),
            "a page of 50 of an inbox": await self.cost(self.inbox),
            "a sweep that finds nothing": await self.cost(self.sweep),
            "all heartbeats": await self.cost(self.beat),
        }

    async def fill(self, paused: int, running: int) -> list[str]:
        """Fill the fleet, and give the table's lines."""
        executor, keys = self._executor, self._keys
        pattern = await work_on_one(executor, keys)
        journal = sum(len(json.dumps(entry, separators=(",", ":"))) for entry in pattern.entries)
        events = sum(len(json.dumps(batch, separators=(",", ":"))) for batch in pattern.batches)
        self._beating = await many(
            100, "a few running", lambda n: copy(executor, keys, pattern, f"few-{n}", pause=False)
        )
        await many(100, "a few paused", lambda n: copy(executor, keys, pattern, f"some-{n}", pause=True))
        few = await self.looked_at()
        empty = await self.bytes_used()
        await many(paused, "paused", lambda n: copy(executor, keys, pattern, f"paused-{n}", pause=True))
        with_paused = await self.bytes_used()
        more = await many(running, "running", lambda n: copy(executor, keys, pattern, f"running-{n}", pause=False))
        with_running = await self.bytes_used()
        self._beating += more
        lots = await self.looked_at()
        server: Any = await executor.client.info("server")
        batches = pattern.batches
        shape = f"a run: {len(pattern.entries)} journal entries of {journal:,} bytes, "
        shape += f"{sum(map(len, batches)):,} events in {len(batches)} batches of {events:,} bytes"
        many_of_both = f"{paused + 100:,} and {running + 100:,}"
        lines = [
            f"Python {platform.python_version()}, redis-py {redis.__version__}, Redis {server['redis_version']}",
            shape,
            f"{'bytes of a paused run':<30}{(with_paused - empty) / paused:>14,.0f}",
            f"{'bytes of a running run':<30}{(with_running - with_paused) / running:>14,.0f}",
            "",
            f"{'processor ms, client + Redis':<30}{'100 paused, 100 running':>26}{many_of_both:>26}",
        ]
        return lines + [f"{name:<30}{few[name]!s:>26}{lots[name]!s:>26}" for name in few]


async def _all(url: str, paused: int, running: int) -> list[str]:
    executor = AsyncExecutor(url, timeout=60)
    try:
        async with AsyncFleet(url, name="scale") as fleet:
            return await Scale(executor, fleet).fill(paused, running)
    finally:
        await executor.aclose()


def main() -> None:
    """Print the table."""
    from support.redis_server import RedisServer

    parser = argparse.ArgumentParser(description="What many runs at once cost the store.")
    parser.add_argument("--paused", type=int, default=20_000, help="paused runs (default 20,000)")
    parser.add_argument("--running", type=int, default=2_000, help="running runs (default 2,000)")
    options = parser.parse_args()
    server = RedisServer()
    server.start()
    try:
        lines = asyncio.run(_all(server.url, options.paused, options.running))
    finally:
        server.close()
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
