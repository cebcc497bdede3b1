"""What one invocation costs beyond its model and its tools, beside the same work in other libraries.

::

    python tests/benchmarks/kernel_overhead.py             # print the table
    python tests/benchmarks/kernel_overhead.py --write     # and keep it in docs/benchmarks.md

Model and tool are instant: three tool rounds, then text. Cases take turns, a sample of each, again and again; a figure
is the median of its samples, in processor time: that other programs run meanwhile counts less than it would by the
clock, yet it counts. Peers that are not installed are left out, and the table says so.
"""

import asyncio
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.peers import ANSWER, PEERS, ROUNDS, add

from turnfleet_kernel import (
    Delta,
    InvocationKernel,
    InvocationOutcome,
    InvocationPlan,
    ModelTurn,
    Phase,
    Stage,
    ToolRequest,
    TurnRequest,
    UsageDelta,
)
from turnfleet_kernel.testing import ToolBox, make_plan

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"
BEGIN, END = "<!-- kernel overhead: generated -->", "<!-- end of kernel overhead -->"

KERNEL = InvocationKernel()
REQUEST = TurnRequest("hi")
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
STAGED = (Phase.RESOLVE, Phase.PRE_MODEL, Phase.POST_MODEL, Phase.PRE_TOOL, Phase.POST_TOOL, Phase.FINALIZE)
CROWD = 1000
REPEATS = 9


class InstantModel:
    """A model whose turns lie ready; which is next, the transcript's length says."""

    def __init__(self, rounds: int) -> None:
        """Ask for a tool in so many rounds, then answer."""
        usage = UsageDelta(10, 5, 1)
        self._turns = [
            ModelTurn("", usage, "tool_calls", (ToolRequest(f"c{number}", "add", {"a": number, "b": 1}),))
            for number in range(rounds)
        ]
        self._turns.append(ModelTurn(ANSWER, usage, "stop"))

    async def invoke(self, transcript: Any) -> ModelTurn:
        """Give the next turn."""
        return self._turns[len(transcript) // 2]

    def stream(self, transcript: Any) -> "InstantRound":
        """Give the next turn, word by word."""
        return InstantRound(self._turns[len(transcript) // 2])


class InstantRound:
    """A streamed turn."""

    def __init__(self, turn: ModelTurn) -> None:
        """Stream this turn."""
        self._turn = turn

    async def deltas(self) -> AsyncIterator[Delta]:
        """Give its words."""
        for word in self._turn.text.split():
            yield Delta("text", word)

    def result(self) -> ModelTurn:
        """Give it whole."""
        return self._turn


def plan_of(rounds: int = ROUNDS, *, stages: bool = False) -> InvocationPlan:
    """Make the plan: one tool with a schema, and if asked for a stage that does nothing in each of six phases."""
    declared = [Stage(phase.value, phase, lambda _: None) for phase in STAGED] if stages else []
    tools = ToolBox({"add": add}, schemas={"add": SCHEMA})
    return make_plan(InstantModel(rounds), tools, declared, max_model_rounds=rounds + 1)


def blocking(plan: InvocationPlan) -> Callable[[], Awaitable[None]]:
    """Run to the outcome."""

    async def run() -> None:
        outcome = await KERNEL.run(plan, REQUEST)
        assert isinstance(outcome, InvocationOutcome)
        assert outcome.text == ANSWER

    return run


def streamed(plan: InvocationPlan) -> Callable[[], Awaitable[None]]:
    """Run and take every event."""

    async def run() -> None:
        async for event in KERNEL.stream(plan, REQUEST):
            last = event
        assert last.kind == "done"

    return run


def crowded(plan: InvocationPlan) -> Callable[[], Awaitable[None]]:
    """Run a thousand at once."""

    async def run() -> None:
        await asyncio.gather(*(KERNEL.run(plan, REQUEST) for _ in range(CROWD)))

    return run


@dataclass
class Case:
    """Something to measure: ``runs`` runs a sample; one call of ``work`` does ``each`` of them."""

    name: str
    work: Callable[[], Awaitable[None]]
    runs: int
    each: int = 1
    samples: list[float] = field(default_factory=list)

    async def sample(self) -> None:
        """Take one sample: seconds of processor time a run; nothing here waits, so that is the time it takes."""
        began = time.process_time()
        for _ in range(self.runs // self.each):
            await self.work()
        self.samples.append((time.process_time() - began) / self.runs)

    @property
    def milliseconds(self) -> float:
        """The median, in milliseconds a run."""
        return statistics.median(self.samples) * 1000


def own_cases() -> list[Case]:
    """List what is measured of the kernel itself."""
    return [
        Case("turnfleet, blocking", blocking(plan_of()), 500),
        Case("turnfleet, streamed", streamed(plan_of()), 500),
        Case("turnfleet, six stages, blocking", blocking(plan_of(stages=True)), 300),
        Case("turnfleet, six stages, streamed", streamed(plan_of(stages=True)), 300),
        Case(f"turnfleet, {CROWD} at once, each", crowded(plan_of()), CROWD, CROWD),
        Case("turnfleet, 10 rounds", blocking(plan_of(10)), 150),
        Case("turnfleet, 100 rounds", blocking(plan_of(100)), 15),
    ]


def peer_cases() -> tuple[list[Case], list[str]]:
    """List the peers that are installed, and name those that are not."""
    cases, absent = [], []
    for name, (make, _) in PEERS.items():
        try:
            cases.append(Case(name, make(), 20))
        except ImportError:
            absent.append(name)
    return cases, absent


async def measure(cases: list[Case]) -> None:
    """Sample all cases by turns, after a first one that does not count."""
    for case in cases:
        await case.sample()
        case.samples.clear()
    for _ in range(REPEATS):
        for case in cases:
            await case.sample()


def import_milliseconds() -> tuple[float, float]:
    """Measure importing the kernel with pydantic counted out: its values alone, and all of it."""
    code = (
        "import time, pydantic\n"
        "from pydantic import *\n"
        "from pydantic_core import to_jsonable_python\n"
        "began = time.perf_counter()\n"
        "import turnfleet_kernel\n"
        "values = time.perf_counter() - began\n"
        "from turnfleet_kernel import *\n"
        "print(values * 1000, (time.perf_counter() - began) * 1000)\n"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
        for _ in range(REPEATS)
    ]
    return statistics.median(float(run[0]) for run in runs), statistics.median(float(run[1]) for run in runs)


def versions() -> str:
    """Name what was run, with versions."""
    names = ("turnfleet", *(name for _, distributions in PEERS.values() for name in distributions))
    found = []
    for name in names:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)


def report(own: list[Case], peers: list[Case], absent: list[str], imports: tuple[float, float]) -> str:
    """Write the table."""
    plain, plain_streamed, staged, staged_streamed, crowd, ten, hundred = own
    best = min((case.milliseconds for case in peers), default=None)

    def against(case: Case, share: int) -> str:
        goal = "" if best is None else f"; best peer / {best / case.milliseconds:.0f}, goal / {share}"
        return f"{case.milliseconds:.3f} ms{goal}"

    rows = [
        ("three tool rounds, blocking", against(plain, 30), "0.12 ms"),
        ("three tool rounds, streamed", against(plain_streamed, 30), "0.12 ms"),
        ("with six stages, blocking", against(staged, 20), "0.18 ms"),
        ("with six stages, streamed", against(staged_streamed, 20), "0.18 ms"),
        (f"{CROWD} at once, each, to a lone one", f"{crowd.milliseconds / plain.milliseconds:.2f} times", "2.5 times"),
        ("100 rounds to 10 rounds", f"{hundred.milliseconds / ten.milliseconds:.1f} times", "11 times"),
        ("import of its values, pydantic counted out", f"{imports[0]:.0f} ms", "60 ms"),
        ("import of all of it, pydantic counted out", f"{imports[1]:.0f} ms", "60 ms"),
    ]
    lines = [
        f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores.",
        f"Load {os.getloadavg()[0]:.1f} at the end; medians of {REPEATS} alternating samples, in processor time.",
        f"{versions()}.",
        "",
        "| kernel | measured | goal |",
        "|---|---|---|",
        *(f"| {name} | {measured} | {goal} |" for name, measured, goal in rows),
        "",
        "| the same three rounds in | a run | to the kernel's |",
        "|---|---|---|",
        *(
            f"| {case.name} | {case.milliseconds:.2f} ms | {case.milliseconds / plain.milliseconds:.0f} times |"
            for case in peers
        ),
        *(f"| {name} | not installed | |" for name in absent),
    ]
    return "\n".join(lines)


def keep(table: str) -> None:
    """Put the table into the page, between its marks."""
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{after}", encoding="utf-8")


def main(arguments: list[str]) -> None:
    """Measure, print, and keep if asked to."""
    own = own_cases()
    peers, absent = peer_cases()
    asyncio.run(measure([*own, *peers]))
    table = report(own, peers, absent, import_milliseconds())
    sys.stdout.write(f"{table}\n")
    if "--write" in arguments:
        keep(table)


if __name__ == "__main__":
    main(sys.argv[1:])
