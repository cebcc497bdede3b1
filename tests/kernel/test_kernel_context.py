"""The request context: one invocation, one plan, and everything it owns ends with it."""

import ast
import asyncio
import gc
import sys
import weakref
from collections.abc import AsyncIterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
from kernel.kit import ASK, walk

import turnfleet_kernel
from turnfleet_kernel import (
    ContractViolationError,
    Delta,
    InvocationKernel,
    InvocationOutcome,
    InvocationPlan,
    ModelTurn,
    PausedOutcome,
    Phase,
    RequestContext,
    ResolvedInputs,
    RunIdentity,
    Stage,
    ToolRequest,
    TurnRequest,
    approval_stage,
    current_call,
    current_run_identity,
)
from turnfleet_kernel.testing import RecordingSink, make_plan


async def test_a_context_serves_one_invocation() -> None:
    """A second one is refused by the run's id; the first one's report stands (RCX-3)."""
    plan = make_plan(["x"])
    first = await walk(plan, run_id="run-1")
    again = await walk(plan, context=first.ctx)
    assert isinstance(again.raised, ContractViolationError)
    assert "run-1" in str(again.raised)
    assert (again.events, first.report.reason) == ([], "completed")


async def test_a_context_with_a_bound_generation_has_begun() -> None:
    """Binding twice is refused as well (RCX-3, RCX-5)."""
    plan = make_plan(["x"])
    ctx = RequestContext(plan, run_id="run-1")
    ctx.bind_generation(plan.identity.plan_id)
    with pytest.raises(ContractViolationError, match="run-1"):
        ctx.bind_generation(plan.identity.plan_id)
    assert isinstance((await walk(plan, context=ctx)).raised, ContractViolationError)


async def test_a_context_belongs_to_its_plan() -> None:
    """Whatever is deployed meanwhile, an invocation sees one plan (RCX-5)."""
    ctx = RequestContext(make_plan(["x"]))
    seen = await walk(make_plan(["y"]), context=ctx)
    assert isinstance(seen.raised, ContractViolationError)
    assert ctx.generation is None


def test_one_context_is_one_run() -> None:
    """Arguments that name different runs are refused (RCX-1)."""
    with pytest.raises(ContractViolationError, match="a, b"):
        RequestContext(make_plan(["x"]), run_id="a", identity=RunIdentity.root("b"))


class Assigned(ast.NodeVisitor):
    """Finds who assigns to attributes of a context: by slot, the modules that do."""

    def __init__(self) -> None:
        self.module = ""
        self.writers: dict[str, set[str]] = {}

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """Note an assignment to ``ctx.slot`` or ``self._ctx.slot``."""
        owner = node.value
        named = getattr(owner, "id", getattr(owner, "attr", ""))
        of_context = named in {"ctx", "_ctx", "context"} or (self.module == "context" and named == "self")
        if of_context and isinstance(node.ctx, ast.Store | ast.Del):
            self.writers.setdefault(node.attr, set()).add(self.module)
        self.generic_visit(node)


def test_every_slot_of_a_context_has_one_writer() -> None:
    """Whoever looks for who changed it has one place to look (RCX-2)."""
    found = Assigned()
    folder = Path(turnfleet_kernel.__path__[0])
    for source in folder.rglob("*.py"):
        found.module = source.stem
        found.visit(ast.parse(source.read_text(encoding="utf-8")))
    others = {"transcript": "phases", "model_name": "palette", "cancelled": "runner"}
    for slot in RequestContext.__slots__:
        # Every slot is first set where it is declared.
        assert found.writers.get(slot, set()) - {others.get(slot, "context")} <= {"context"}, slot


def test_resolved_inputs_are_bound_once() -> None:
    """And cannot be changed by a reader (RCX-6)."""
    ctx = RequestContext(make_plan(["x"]))
    ctx.bind_resolved(ResolvedInputs({"k": 1}))
    with pytest.raises(ContractViolationError, match="bound already"):
        ctx.bind_resolved(ResolvedInputs())
    with pytest.raises(AttributeError):
        ctx.resolved = ResolvedInputs()  # type: ignore[misc]


NOTE: ContextVar[str] = ContextVar("note")
"""A variable of the users' own."""


class Echo:
    """A model that calls a tool with the prompt, under the same id in every run, and says what came of it."""

    async def invoke(self, transcript: Any) -> ModelTurn:
        """Give the next turn."""
        await asyncio.sleep(0)
        if transcript[-1]["role"] == "tool":
            return ModelTurn(str(transcript[-1]["content"]))
        return ModelTurn(tool_requests=(ToolRequest("c", "who", {"said": transcript[-1]["content"]}),))

    def stream(self, transcript: Any) -> Any:
        """Give the next turn, whole."""
        turn = self.invoke(transcript)

        class Round:
            async def deltas(self) -> AsyncIterator[Delta]:
                self.turn = await turn
                yield Delta("text", self.turn.text)

            def result(self) -> ModelTurn:
                return self.turn

        return Round()


def crowd() -> InvocationPlan:
    """Make a plan whose tool and stage say which run they think they are in, after others had their turn."""

    async def who(said: str) -> str:
        NOTE.set(said)
        await asyncio.sleep(0)
        identity, this = current_run_identity(), current_call()
        return f"{said} {NOTE.get()} {identity and identity.run_id} {this and this.call_id}"

    def note(frame: Any) -> None:
        frame.scratch("n").setdefault("run", frame.run.run_id)
        assert frame.scratch("n")["run"] == frame.run.run_id
        assert current_run_identity() == frame.run

    return make_plan(Echo(), tools={"who": who}, stages=[Stage("n", Phase.PRE_MODEL, note)])


async def test_two_thousand_invocations_share_the_plan_and_nothing_else(kernel: InvocationKernel) -> None:
    """At once on one loop: ids, notes, context variables, call ids and answers are kept apart (RCX-7, RCX-10)."""
    plan = crowd()
    contexts = [RequestContext(plan, run_id=f"r{number}") for number in range(2000)]
    runs = [kernel.run(plan, TurnRequest(f"p{number}"), context=ctx) for number, ctx in enumerate(contexts)]
    outcomes = await asyncio.gather(*runs)
    texts = [outcome.text for outcome in outcomes if isinstance(outcome, InvocationOutcome)]
    assert texts == [f"p{number} p{number} r{number} c" for number in range(2000)]
    assert [list(ctx.call_ids) for ctx in contexts] == [["c"]] * 2000
    assert len({id(ctx.scratch("n")) for ctx in contexts}) == 2000


async def test_one_task_may_walk_many_invocations_by_turns(kernel: InvocationKernel) -> None:
    """An event of this, an event of that: what is ambient in one is not in the next, nor here (RCX-10)."""
    plan = crowd()
    numbers = range(200)
    streams = {number: kernel.stream(plan, TurnRequest(f"p{number}", run_id=f"r{number}")) for number in numbers}
    ends: dict[int, Any] = {}
    while streams:
        for number, stream in list(streams.items()):
            event = await anext(stream, None)
            assert current_run_identity() is None
            if event is None:
                del streams[number]
            else:
                ends[number] = event
    assert [ends[number].outcome.text for number in numbers] == [f"p{n} p{n} r{n} c" for n in numbers]


async def many_runs(kernel: InvocationKernel, count: int) -> None:
    """Run one kernel and one plan many times: to the end, to a pause, to an error, and left half-way."""
    plan = make_plan(Echo(), tools={"who": lambda said: said}, max_model_rounds=3)
    pausing = make_plan(Echo(), tools={"who": lambda said: said}, stages=[approval_stage(lambda _: True)])
    failing = make_plan(Echo(), tools={"who": lambda said: said}, stages=[Stage("f", Phase.POST_TOOL, explode)])
    for number in range(count):
        match number % 10:
            case 0:
                assert isinstance(await kernel.run(pausing, ASK), PausedOutcome)
            case 1:
                with pytest.raises(RuntimeError):
                    await kernel.run(failing, ASK)
            case 2:
                stream = kernel.stream(plan, ASK)
                await anext(stream)
                await stream.aclose()
            case _:
                await kernel.run(plan, ASK)


def explode(_: object) -> None:
    """Fail."""
    raise RuntimeError("boom")


async def growth(runs: int) -> int:
    """Tell how many blocks of memory more there are after so many runs than before them."""
    kernel = InvocationKernel()
    await many_runs(kernel, 300)
    gc.collect()
    before = sys.getallocatedblocks()
    await many_runs(kernel, runs)
    gc.collect()
    return sys.getallocatedblocks() - before


async def test_a_kernel_does_not_grow_with_its_runs() -> None:
    """It remembers none of them, however they end (RCX-1, RCX-10).

    The rest of the process comes and goes by some hundred blocks; runs that left one each would be two thousand.
    """
    assert await growth(2000) < 1000


@pytest.mark.slow
async def test_a_kernel_does_not_grow_over_fifty_thousand_runs() -> None:
    """The same, long enough for a byte a run to show (RCX-1, RCX-10)."""
    assert await growth(50_000) < 1000


async def test_nothing_of_an_invocation_outlives_it(kernel: InvocationKernel) -> None:
    """No plan and no kernel keeps a context (RCX-1)."""
    plan = make_plan(["x"], sink=RecordingSink())
    ctx = RequestContext(plan)
    gone = weakref.ref(ctx)
    await kernel.run(plan, ASK, context=ctx)
    del ctx
    gc.collect()
    assert gone() is None


# -- background work


def spawning(work: Any, **options: Any) -> Stage:
    """Make a stage that starts background work through the context kept in ``options["contexts"]``."""
    contexts: list[RequestContext] = options.pop("contexts")

    def spawn(_: object) -> None:
        contexts[0].spawn(work(), owner="memory", purpose="index", **options)

    return Stage("spawner", Phase.PRE_MODEL, spawn)


async def test_background_work_is_waited_for() -> None:
    """Teardown waits within the grace (RCX-8)."""
    done: list[str] = []

    async def work() -> None:
        await asyncio.sleep(0.02)
        done.append("indexed")

    contexts: list[RequestContext] = []
    plan = make_plan(["x"], stages=[spawning(work, contexts=contexts)])
    contexts.append(RequestContext(plan))
    seen = await walk(plan, context=contexts[0])
    assert (done, seen.report.cancelled, seen.report.failures) == (["indexed"], (), ())


async def test_background_work_that_takes_too_long_is_cancelled_and_recorded() -> None:
    """After the grace, or after a deadline of its own (RCX-8, RCX-11)."""
    for options in ({}, {"deadline_seconds": 0.01}):
        contexts: list[RequestContext] = []
        stage = spawning(lambda: asyncio.sleep(60), contexts=contexts, **options)
        plan = make_plan(["x"], stages=[stage], teardown_grace_seconds=0.05)
        contexts.append(RequestContext(plan))
        seen = await walk(plan, context=contexts[0])
        assert (seen.kinds[-1], seen.report.cancelled) == ("done", ("memory: index",))


async def test_background_work_that_will_not_end_holds_nobody_up() -> None:
    """Teardown takes at most twice the grace; the work is reported as overran (RCX-8, RCX-11)."""
    release = asyncio.Event()

    async def stubborn() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    contexts: list[RequestContext] = []
    plan = make_plan(["x"], stages=[spawning(stubborn, contexts=contexts)], teardown_grace_seconds=0.02)
    contexts.append(RequestContext(plan))
    seen = await walk(plan, context=contexts[0])
    assert (seen.report.cancelled, seen.report.overran) == (("memory: index",), ("memory: index",))
    release.set()
    await asyncio.sleep(0)


async def test_background_work_that_fails_is_reported() -> None:
    """It breaks no run and is not lost (RCX-8)."""

    async def work() -> None:
        raise OSError("no space")

    contexts: list[RequestContext] = []
    plan = make_plan(["x"], stages=[spawning(work, contexts=contexts)])
    contexts.append(RequestContext(plan))
    seen = await walk(plan, context=contexts[0])
    assert seen.report.resource_failures == ("memory: index: OSError: no space",)


async def test_nothing_starts_after_the_end() -> None:
    """A run that has ended owns nothing any more (RCX-8)."""
    seen = await walk(make_plan(["x"]))
    with pytest.raises(ContractViolationError, match="has ended"):
        seen.ctx.spawn(asyncio.sleep(0), owner="late", purpose="work")


async def test_teardown_runs_once() -> None:
    """Asked again, the same report, whatever reason is given (RCX-11)."""
    seen = await walk(make_plan(["x"]))
    assert await seen.ctx.teardown("error") is seen.ctx.report
    assert seen.report.reason == "completed"


async def test_the_runner_holds_no_ambient_value_across_a_yield(kernel: InvocationKernel) -> None:
    """Not even when the model's own stream is suspended between two deltas (RCX-10)."""
    saw: list[Any] = []

    class Looking:
        async def invoke(self, transcript: Any) -> ModelTurn:
            raise AssertionError("deltas were asked for")

        def stream(self, transcript: Any) -> Any:
            saw.append(current_run_identity())
            return self

        async def deltas(self) -> AsyncIterator[Any]:
            for word in ("a", "b"):
                saw.append(current_run_identity())
                yield Delta("text", word)

        def result(self) -> ModelTurn:
            return ModelTurn("ab")

    async for _ in kernel.stream(make_plan(Looking()), TurnRequest("x", run_id="r")):
        assert current_run_identity() is None
    assert saw == [RunIdentity.root("r")] * 3
