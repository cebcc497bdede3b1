"""What a run waits for: which calls, under which ids, in which order."""

import asyncio
from typing import Any

from kernel.kit import ASK, go_on, walk
from kernel.shop import Shop

from turnfleet_kernel import (
    Answer,
    Approve,
    Interrupt,
    InvocationPaused,
    Phase,
    RequestContext,
    Stage,
    StageFrame,
    ToolRequest,
)
from turnfleet_kernel.testing import call, calls, make_plan


async def test_some_may_be_answered_and_the_rest_wait_on() -> None:
    """What was decided is kept, the others pause again, nothing is called before all are decided (HK-5)."""
    shop = Shop()
    first = await walk(shop.plan)
    again = await go_on(shop.plan, first.record(), {"approval:p2": Approve()})
    assert [each.id for each in again.ctx.interrupts] == ["approval:p1"]
    assert (shop.done, list(again.record().decisions)) == ([], ["approval:p2"])
    last = await go_on(shop.plan, again.record(), {"approval:p1": Approve()})
    assert [each.id for each in last.ctx.interrupts] == ["which"]
    assert shop.done == [("pay", 1), "asked", "looked", ("pay", 2)]


async def test_calls_that_wait_are_not_made_again() -> None:
    """Two tools pause in one round; one is answered, the other is not called for it, whatever the limit (HK-5)."""
    for limit in (1, 2, 8):
        made: list[str] = []

        def ask(name: str, made: list[str] = made) -> None:
            made.append(name)
            raise InvocationPaused(Interrupt(f"ask {name}", "question"))

        asked = calls(*(ToolRequest(name, "ask", {"name": name}) for name in ("a", "b")))
        plan = make_plan([asked, "end"], tools={"ask": ask}, max_parallel_tools=limit)
        seen = await walk(plan)
        answers = 0
        while seen.kinds[-1] == "question":
            answers += 1
            seen = await go_on(plan, seen.record(), {seen.ctx.interrupts[-1].id: Answer(answers)})
        assert (sorted(made), answers) == (["a", "b"], 2)


async def test_interrupt_ids_are_unique_in_the_run() -> None:
    """A tool that asks under the same id in every round is asked about under different ones (HK-5)."""

    def ask() -> None:
        raise InvocationPaused(Interrupt("which", "question"))

    plan = make_plan([call("ask", "a"), call("ask", "b"), "end"], tools={"ask": ask})
    first = await walk(plan)
    second = await go_on(plan, first.record(), {"which": Answer(1)})
    assert [each.id for each in second.ctx.interrupts] == ["which#2"]
    third = await go_on(plan, second.record(), {"which#2": Answer(2)})
    assert [each.value for each in third.ctx.tool_outcomes] == [1, 2]


async def test_what_is_not_reached_again_stays_open() -> None:
    """Two calls wait, the second started late; going on without news, the first keeps it from starting (HK-5)."""
    late_started = asyncio.Event()
    made: list[str] = []

    async def early() -> None:
        made.append("early")
        await late_started.wait()
        raise InvocationPaused(Interrupt("early", "question"))

    def late() -> None:
        made.append("late")
        late_started.set()
        raise InvocationPaused(Interrupt("late", "question"))

    asked = calls(*(ToolRequest(name, name, {}) for name in ("quick", "early", "late")))
    tools: dict[str, Any] = {"quick": lambda: 1, "early": early, "late": late}
    plan = make_plan([asked, "end"], tools=tools, max_parallel_tools=2)
    first = await walk(plan)
    assert [each.id for each in first.ctx.interrupts] == ["early", "late"]
    second = await go_on(plan, first.record(), {})
    assert [each.id for each in second.ctx.interrupts] == ["early", "late"]
    third = await go_on(plan, second.record(), {"early": Answer(1), "late": Answer(2)})
    assert [each.value for each in third.ctx.tool_outcomes] == [1, 1, 2]
    assert made == ["early", "late"]


async def test_interrupts_stand_in_request_order() -> None:
    """Whatever the order in which a stage names them (TOL-4, EVT-11)."""

    def backwards(frame: StageFrame) -> None:
        requests = reversed(frame.requests or ())
        raise InvocationPaused(*(Interrupt(f"i-{each.call_id}", "approval", {}, each.call_id) for each in requests))

    asked = calls(*(ToolRequest(name, "t", {}) for name in ("a", "b")))
    seen = await walk(make_plan([asked], tools={"t": lambda: 1}, stages=[Stage("s", Phase.PRE_TOOL, backwards)]))
    assert [each.id for each in seen.events[-1].interrupts] == ["i-a", "i-b"]
    assert seen.events[-1].interrupt.id == "i-a"


async def test_a_pause_takes_no_exception_handler(kernel: Any) -> None:
    """Code that catches Exception between tool and runner cannot turn it into an observation (HK-2)."""

    def ask() -> None:
        raise InvocationPaused(Interrupt("q", "question"))

    def careless() -> str:
        try:
            ask()
        except Exception:  # noqa: BLE001 - the point of the test
            return "swallowed"
        return "not asked"

    plan = make_plan([call("ask", "a")], tools={"ask": careless})
    ctx = RequestContext(plan)
    paused = await kernel.run(plan, ASK, context=ctx)
    assert (paused.run_id, [each.call_id for each in paused.interrupts]) == (ctx.run_id, ["a"])
