"""Agents that call agents."""

import asyncio
from typing import Any

import pytest
from kernel.kit import ASK, go_on, indices, walk

from turnfleet_kernel import (
    Approve,
    DelegationContext,
    InvocationKernel,
    InvocationOutcome,
    InvocationPlan,
    Phase,
    RequestContext,
    RunIdentity,
    Stage,
    ToolRequest,
    TurnRequest,
    UsageDelta,
    approval_stage,
    current_run_identity,
    delegate,
)
from turnfleet_kernel.testing import RecordingSink, call, calls, make_plan


class Slots:
    """A snapshots port that counts."""

    def __init__(self) -> None:
        self.taken: list[int] = []
        self.story: list[str] = []
        self.open_now: set[int] = set()

    def open(self) -> int:
        """Take a slot."""
        slot = len(self.taken)
        self.taken.append(slot)
        self.open_now.add(slot)
        self.story.append(f"open {self._who()}")
        return slot

    async def close(self, token: int) -> None:
        """Give it back."""
        self.open_now.remove(token)
        self.story.append(f"close {self._who()}")

    @staticmethod
    def _who() -> str:
        identity = current_run_identity()
        return "nobody" if identity is None else identity.run_id


def chain(delegation: DelegationContext, depth: int, *, tools: Any = None, **options: Any) -> InvocationPlan:
    """Make a plan whose children are so many deep; the deepest has the tools and stages given."""
    if depth == 0:
        return make_plan(
            [call("work", "w"), "deep"], tools=tools or {"work": lambda: "worked"}, name="level-0", **options
        )
    child = chain(delegation, depth - 1, tools=tools, **options)
    tool = delegate(InvocationKernel(), delegation, f"level-{depth - 1}", child)
    return make_plan(
        [call("child", "c", prompt=f"p{depth}"), f"said at {depth}"], tools={"child": tool}, name=f"level-{depth}"
    )


async def test_a_child_has_an_identity_of_its_own() -> None:
    """Run, root, parent, and a depth one more (DEL-1)."""
    saw: list[Any] = []
    delegation = DelegationContext()
    plan = chain(
        delegation, 2, tools={"work": lambda: saw.append((current_run_identity(), delegation.current_depth()))}
    )
    seen = await walk(plan, run_id="r")
    assert seen.raised is None
    assert saw == [(RunIdentity("r.c.c", "r", "r.c", 2), 2)]


async def test_events_of_every_depth_reach_the_root() -> None:
    """As ``child`` events of the root's own sequence; a child's end appears only inside one (EVT-3, EVT-4)."""
    sink = RecordingSink()
    plan = chain(DelegationContext(), 2)
    plan = make_plan(plan.bindings.model, tools=plan.bindings.tools, sink=sink)
    seen = await walk(plan, run_id="r")
    assert indices(seen) == list(range(len(seen.events)))
    children = seen.of("child")
    assert {event.payload["run_id"]: event.parent_run_id for event in children} == {"r.c": "r", "r.c.c": "r.c"}
    for run_id in ("r.c", "r.c.c"):
        own = [event.event for event in children if event.payload["run_id"] == run_id]
        assert [event.index for event in own] == list(range(len(own)))
        assert (own[-1].kind, own[-1].run_id) == ("done", run_id)
    assert [event.kind for event in seen.events if event.kind == "done"] == ["done"]
    assert sink.events == seen.events


async def test_what_children_use_counts_to_their_parents() -> None:
    """All the way up (DEL-1)."""
    seen = await walk(chain(DelegationContext(), 3))
    assert seen.ctx.usage == UsageDelta(requests=8)
    assert seen.events[-1].outcome.usage == UsageDelta(requests=8)


async def test_depth_is_bounded_by_the_root() -> None:
    """One deeper is an error outcome, not an error of the run (DEL-1)."""
    saw: list[str] = []
    plan = chain(DelegationContext(), 3, tools={"work": lambda: saw.append("worked")})
    plan = make_plan(plan.bindings.model, tools=plan.bindings.tools, max_depth=2)
    seen = await walk(plan, run_id="r")
    assert (seen.kinds[-1], saw) == ("done", [])
    deepest = [event.event for event in seen.of("child") if event.payload["run_id"] == "r.c.c"]
    errors = [event.outcome.error for event in deepest if event.kind == "tool_result"]
    assert errors == ["DelegationDepthError: run r.c.c cannot delegate to 'level-0': max_depth is 2"]


async def test_a_child_that_fails_is_an_outcome() -> None:
    """Its usage is charged all the same (DEL-1, TOL-2)."""
    child = make_plan([call("work", "w"), ConnectionError("down")], tools={"work": lambda: 1}, name="child")
    tool = delegate(InvocationKernel(), DelegationContext(), "child", child)
    seen = await walk(make_plan([call("child", "c", prompt="p"), "sorry"], tools={"child": tool}))
    assert seen.text == "sorry"
    assert (seen.ctx.tool_outcomes[0].error, seen.ctx.usage) == ("ConnectionError: down", UsageDelta(requests=3))


@pytest.mark.parametrize("streamed", [True, False])
async def test_every_delegated_run_holds_one_slot(kernel: InvocationKernel, *, streamed: bool) -> None:
    """Streamed or not, on every path; a top-level run holds none (DEL-3)."""
    slots = Slots()
    delegation = DelegationContext(snapshots=slots)
    plan = chain(delegation, 3, tools={"work": lambda: len(slots.open_now)})
    ctx = RequestContext(plan)
    async with delegation.run_scope(identity=ctx.identity) as run:
        if streamed:
            async for _ in kernel.stream(plan, ASK, context=ctx):
                pass
        else:
            await kernel.run(plan, ASK, context=ctx)
    assert (len(slots.taken), slots.open_now) == (3, set())
    assert (run.delegated, run.delegated_to) == (True, ("level-2",))


async def family(*, streamed: bool) -> tuple[Slots, Any, Any, list[Any]]:
    """Run four siblings at once, each three deep: two end, one is cancelled deep down, one pauses deep down."""
    slots = Slots()
    delegation = DelegationContext(snapshots=slots)
    saw: list[Any] = []
    both_stuck = asyncio.Event()

    def note() -> None:
        delegation.record_delegation("inner")
        identity = current_run_identity()
        saw.append((identity and identity.run_id, delegation.current_depth(), delegation.delegated_to()))

    async def stuck() -> None:
        both_stuck.set()
        await asyncio.Event().wait()

    def sibling(**options: Any) -> Any:
        tools = {"work": options.pop("work", note)}
        child = chain(delegation, 2, tools=tools, **options)
        return delegate(InvocationKernel(), delegation, options.pop("name", "sibling"), child)

    def cut_off(child: Any) -> Any:
        async def run_and_cancel(prompt: str) -> Any:
            task = asyncio.ensure_future(child(prompt))
            await both_stuck.wait()
            task.cancel()
            return await task

        return run_and_cancel

    tools = {
        "one": sibling(),
        "cancelled": cut_off(sibling(work=stuck)),
        "two": sibling(),
        "paused": sibling(stages=[approval_stage(lambda _: True)]),
    }
    asked = calls(*(ToolRequest(name, name, {"prompt": "p"}) for name in tools))
    plan = make_plan([asked, "end"], tools=tools)
    async with delegation.run_scope(identity=RunIdentity.root("r")) as run:
        seen = await walk(plan, run_id="r", streamed=streamed)
    return slots, run, seen, saw


@pytest.mark.parametrize("streamed", [True, False])
async def test_siblings_are_kept_apart(*, streamed: bool) -> None:
    """Depths, tallies and slots of their own; a cancelled one unwinds only its own (DEL-3, DEL-5)."""
    slots, run, seen, saw = await family(streamed=streamed)
    assert sorted(saw) == [("r.one.c.c", 3, ("inner",)), ("r.two.c.c", 3, ("inner",))]
    assert (len(slots.taken), slots.open_now) == (12, set())
    assert run.delegated_to == ("sibling", "sibling")
    assert [each.id for each in seen.ctx.interrupts] == ["r.paused:r.paused.c:r.paused.c.c:approval:w"]
    known = {call_id: each.value or each.error for call_id, each in seen.ctx.round.outcomes.items()}
    assert known == {
        "one": "said at 2",
        "cancelled": "CancelledError: the tool cancelled itself",
        "two": "said at 2",
    }
    reasons = {event.payload["run_id"]: event.event.kind for event in seen.of("child")}
    assert reasons["r.one"] == "done"
    assert reasons["r.paused.c.c"] == "approval"


async def test_streamed_and_blocking_hold_the_same_slots() -> None:
    """In the same order, with the same tallies (DEL-3, IPL-2)."""
    (slots, run, *_), (other_slots, other_run, *_) = await family(streamed=True), await family(streamed=False)
    assert (slots.story, run.delegated_to) == (other_slots.story, other_run.delegated_to)


async def test_a_cancelled_parent_unwinds_its_children() -> None:
    """Every slot is given back, every child's run torn down (DEL-3, DEL-5, CXL-4)."""
    slots, reached = Slots(), asyncio.Event()

    async def work() -> None:
        reached.set()
        await asyncio.Event().wait()

    plan = chain(DelegationContext(snapshots=slots), 3, tools={"work": work})
    task = asyncio.ensure_future(walk(plan))
    await reached.wait()
    assert len(slots.open_now) == 3
    task.cancel()
    assert (await task).report.reason == "cancelled"
    assert slots.open_now == set()


async def test_the_pause_of_a_child_pauses_its_parents_and_goes_on_there() -> None:
    """Three deep: one interrupt, prefixed with run ids; the child goes on where it stopped (DEL-6, HK-5)."""
    done: list[str] = []
    delegation = DelegationContext()
    tools = {"work": lambda: done.append("worked")}
    plan = chain(delegation, 3, tools=tools, stages=[approval_stage(lambda _: True)])
    first = await walk(plan, run_id="r")
    (interrupt,) = first.ctx.interrupts
    assert (interrupt.id, interrupt.call_id) == ("r.c:r.c.c:r.c.c.c:approval:w", "c")
    record = first.record()
    assert record.children["c"].children["c"].children["c"].interrupts[0].id == "approval:w"
    still = await go_on(plan, record, {})
    assert [each.id for each in still.ctx.interrupts] == [interrupt.id]
    assert still.of("child") == []
    last = await go_on(plan, still.record(), {interrupt.id: Approve()})
    assert (last.kinds[-1], done) == ("done", ["worked"])
    assert last.ctx.usage == UsageDelta(requests=8)
    inner = [
        event.event.index
        for each in (first, last)
        for event in each.of("child")
        if event.payload["run_id"] == "r.c.c.c"
    ]
    assert inner == list(range(len(inner)))


async def test_a_child_that_has_finished_is_not_recorded_again() -> None:
    """Of two children that waited one goes on and ends; the record then holds the other alone (HK-3, DEL-6)."""
    child = chain(DelegationContext(), 0, stages=[approval_stage(lambda _: True)])
    tool = delegate(InvocationKernel(), DelegationContext(), "child", child)
    asked = calls(*(ToolRequest(call_id, "child", {"prompt": call_id}) for call_id in ("a", "b")))
    plan = make_plan([asked, "end"], tools={"child": tool})
    first = (await walk(plan, run_id="r")).record()
    assert list(first.children) == ["a", "b"]
    second = (await go_on(plan, first, {"r.a:approval:w": Approve()})).record()
    assert (list(second.children), list(second.outcomes)) == (["b"], ["a"])
    third = await go_on(plan, second, {"r.b:approval:w": Approve()})
    assert [each.value for each in third.ctx.tool_outcomes] == ["deep", "deep"]
    assert third.ctx.usage == UsageDelta(requests=6)


async def test_current_values_outside_any_run() -> None:
    """Depth 0, nobody, nothing noted; the scope is asked for at the moment of use (DEL-4)."""
    scopes = iter(["first", "second"])
    delegation = DelegationContext(resolve_scope=lambda: next(scopes))
    delegation.record_delegation("nobody")
    assert (delegation.current_depth(), delegation.current_run(), delegation.delegated_to()) == (0, None, ())
    assert (delegation.current_scope(), delegation.current_scope()) == ("first", "second")
    assert DelegationContext().current_scope() is None


@pytest.mark.parametrize(
    ("given", "depth"),
    [
        (2, 2),
        ("3", 3),
        (-1, 0),
        (None, 0),
        ("deep", 0),
        (float("inf"), 0),
        (float("nan"), 0),
        (1.9, 1),
        (True, 1),
        ([], 0),
    ],
)
async def test_a_depth_is_a_whole_number(given: object, depth: int) -> None:
    """What cannot be read as one is 0 (DEL-2)."""
    async with DelegationContext().run_scope(depth=given) as run:
        assert run.depth == depth


async def test_a_scope_is_readable_after_it_closed() -> None:
    """Order and repeats kept; a root is its own root (DEL-2)."""
    delegation = DelegationContext()
    async with delegation.run_scope(identity=RunIdentity.root("r")) as run:
        for name in ("a", "b", "a"):
            delegation.record_delegation(name)
        assert delegation.current_run() is run
    assert (run.run_id, run.root_run_id, run.parent_run_id) == ("r", "r", None)
    assert run.delegated_to == ("a", "b", "a")
    assert delegation.current_run() is None


async def test_a_scope_takes_the_ambient_identity() -> None:
    """Where none is given (DEL-2)."""
    delegation, saw = DelegationContext(), []

    async def look(_: object) -> None:
        async with delegation.run_scope() as run:
            saw.append(run.run_id)

    await InvocationKernel().run(
        make_plan(["x"], stages=[Stage("s", Phase.PRE_MODEL, look)]), TurnRequest("p", run_id="ambient")
    )
    assert saw == ["ambient"]


async def test_a_blocking_parent_runs_blocking_children(kernel: InvocationKernel) -> None:
    """The child's deltas are those of the way its root is consumed (IPL-2)."""
    outcome = await kernel.run(chain(DelegationContext(), 1), ASK)
    assert isinstance(outcome, InvocationOutcome)
    assert [each.value for each in outcome.tool_outcomes] == ["deep"]
