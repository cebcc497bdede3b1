"""What a journal costs: its bytes against those of the transcript that it leads to, and how they grow (DESIGN 2).

`python tests/benchmarks/journal_bytes.py` prints the table. It starts a Redis server of its own. The figures are
counts, the same on every machine.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.inside import run_of, worked_on

from turnfleet.store import Keys, commands
from turnfleet.store.command import dump
from turnfleet.store.executor import AsyncExecutor
from turnfleet_kernel import (
    Delta,
    ModelTurn,
    PlanLimits,
    PlanSpec,
    ToolRequest,
    UsageDelta,
)
from turnfleet_worker import Registry

TURN_BYTES = 500
RESULT_BYTES = 2_000
ROUNDS = (50, 200)


@dataclass(frozen=True)
class Cost:
    """Bytes in the store at the end of a run. `transcript` is its messages as compact JSON."""

    rounds: int
    journal: int
    transcript: int
    events: int

    @property
    def ratio(self) -> float:
        """Journal bytes for each byte of the transcript."""
        return self.journal / self.transcript


class Talker:
    """A model that says 500 bytes and asks for one call, round after round; ids as providers give them."""

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds

    async def invoke(self, transcript: Any) -> ModelTurn:
        """Give the next turn."""
        number = sum(1 for message in transcript if message["role"] == "assistant")
        text = f"turn {number}: ".ljust(TURN_BYTES, "x")
        usage = UsageDelta(input_tokens=1000 + number, output_tokens=125, requests=1)
        if number == self._rounds:
            return ModelTurn(text, usage, "stop")
        request = ToolRequest(f"call_{number:024x}", "look", {"query": f"page {number}"})
        return ModelTurn(text, usage, "tool_calls", (request,))

    def stream(self, transcript: Any) -> "_Said":
        """Give the next turn, its text in one piece."""
        return _Said(self, transcript)


class _Said:
    def __init__(self, model: Talker, transcript: Any) -> None:
        self._model = model
        self._transcript = transcript
        self._turn = ModelTurn()

    async def deltas(self) -> AsyncIterator[Delta]:
        self._turn = await self._model.invoke(self._transcript)
        yield Delta("text", self._turn.text)

    def result(self) -> ModelTurn:
        return self._turn


async def measure(executor: AsyncExecutor, fleet: str, rounds: int) -> Cost:
    """Run a run of so many tool rounds through one worker's inside, and count what it left in the store."""
    keys, run_id = Keys(fleet), f"rounds-{rounds}"
    registry = Registry()
    registry.model("talker", Talker(rounds))

    @registry.tool(idempotent=True)
    async def look(query: str) -> str:
        """Look something up."""
        return f"found for {query}: ".ljust(RESULT_BYTES, "y")

    spec = PlanSpec(
        name="talk", model="talker", tools=("look",), instructions="Look.", limits=PlanLimits(max_model_rounds=1_000)
    )
    left = await worked_on(executor, keys, registry, spec, run_of(spec, run_id, "go"))
    assert left.state == "completed", left
    outcome = (await executor.execute(commands.outcome(keys, run_id))).outcome
    assert outcome is not None
    entries = await executor.client.lrange(keys.journal(run_id), 0, -1)
    events = (await executor.execute(commands.read_events(keys, run_id, count=10_000))).events
    return Cost(
        rounds,
        journal=sum(map(len, entries)),
        transcript=len(dump(outcome["messages"])),
        events=sum(len(dump(event)) for event in events),
    )


async def _all(url: str) -> list[Cost]:
    executor = AsyncExecutor(url)
    try:
        return [await measure(executor, "bytes", rounds) for rounds in ROUNDS]
    finally:
        await executor.aclose()


def main() -> None:
    """Print the table."""
    from support.redis_server import RedisServer

    server = RedisServer()
    server.start()
    try:
        few, many = asyncio.run(_all(server.url))
    finally:
        server.close()
    lines = [f"{'rounds':>8}{'journal':>12}{'transcript':>12}{'ratio':>8}{'events':>12}   (bytes)"]
    lines += [
        f"{cost.rounds:>8}{cost.journal:>12,}{cost.transcript:>12,}{cost.ratio:>8.3f}{cost.events:>12,}"
        for cost in (few, many)
    ]
    lines.append(f"{many.rounds} rounds cost {many.journal / few.journal:.3f} times what {few.rounds} cost")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
