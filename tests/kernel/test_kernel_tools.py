"""A round of tool calls: at once, in order, and whatever a tool does the run decides what it means."""

import asyncio
from typing import Any

import pytest
from kernel.kit import ASK, go_on, walk

from turnfleet_kernel import (
    Approve,
    Interrupt,
    InvocationKernel,
    InvocationOutcome,
    InvocationPaused,
    ToolOutcome,
    ToolRequest,
    current_call,
    current_run_identity,
)
from turnfleet_kernel.testing import ToolBox, call, calls, make_plan


def asking(*names: str) -> Any:
    """Give a turn that calls each of these tools once; the call id is the name."""
    return calls(*(ToolRequest(name, name, {}) for name in names))


async def test_calls_run_at_once_and_results_keep_their_order() -> None:
    """The second can only end before the first; the outcomes stand in request order (TOL-1)."""
    second_done = asyncio.Event()

    async def first() -> str:
        await second_done.wait()
        return "1"

    def second() -> str:
        second_done.set()
        return "2"

    seen = await walk(make_plan([asking("first", "second"), "x"], tools={"first": first, "second": second}))
    assert [each.value for each in seen.ctx.tool_outcomes] == ["1", "2"]
    assert [event.call_id for event in seen.of("tool_result")] == ["first", "second"]


async def test_no_more_calls_run_than_the_plan_allows() -> None:
    """max_parallel_tools bounds a round (TOL-1)."""
    running, most = 0, 0

    async def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    names = [f"t{number}" for number in range(7)]
    await walk(make_plan([asking(*names), "x"], tools=dict.fromkeys(names, work), max_parallel_tools=3))
    assert most == 3


async def cancels_itself() -> None:
    """Cancel a task of one's own and let the cancellation out."""
    task = asyncio.ensure_future(asyncio.sleep(60))
    task.cancel()
    await task


async def times_out() -> None:
    """Run into a time limit of one's own."""
    async with asyncio.timeout(0):
        await asyncio.sleep(60)


def fails() -> None:
    """Fail in a common way."""
    raise ValueError("no such order")


@pytest.mark.parametrize(
    ("tool", "error"),
    [
        (fails, "ValueError: no such order"),
        (cancels_itself, "CancelledError: the tool cancelled itself"),
        (times_out, "TimeoutError: "),
    ],
)
async def test_what_a_tool_raises_is_an_outcome(tool: Any, error: str) -> None:
    """The model sees it and the run goes on, with a deadline or without (TOL-2, CXL-6)."""
    for deadline in (None, 60):
        seen = await walk(make_plan([asking("t"), "sorry"], tools={"t": tool}, deadline_seconds=deadline))
        assert (seen.raised, seen.report.reason, seen.text) == (None, "completed", "sorry")
        assert [each.error for each in seen.ctx.tool_outcomes] == [error]


async def test_a_failing_tool_port_is_an_outcome_too() -> None:
    """Also one that gives something else than an outcome (TOL-2)."""

    class Broken(ToolBox):
        async def call(self, request: ToolRequest) -> ToolOutcome:
            if request.name == "raises":
                raise ConnectionError("port down")
            return "text"  # type: ignore[return-value]

    seen = await walk(make_plan([asking("raises", "other"), "x"], tools=Broken({})))
    assert [each.error for each in seen.ctx.tool_outcomes] == [
        "ConnectionError: port down",
        "TypeError: the tool port gave a str for 'other', not a ToolOutcome",
    ]


SCHEMA = {
    "type": "object",
    "properties": {"amount": {"type": "number", "minimum": 0}, "order": {"type": "string"}},
    "required": ["amount"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"amount": 1, "order": "o"}, None),
        ({"amount": "much"}, "amount: must be of type number"),
        ({"amount": -5}, "amount: breaks minimum: 0"),
        ({}, "missing 'amount'"),
        ({"amount": 1, "colour": "red"}, "unknown 'colour'"),
    ],
)
async def test_arguments_are_checked_before_the_call(arguments: dict[str, Any], problem: str | None) -> None:
    """What does not fit is an outcome in words for the model, and nothing was called (TOL-3)."""
    called: list[dict[str, Any]] = []
    tools = ToolBox({"pay": lambda **given: called.append(given)}, schemas={"pay": SCHEMA})
    seen = await walk(make_plan([calls(ToolRequest("c", "pay", arguments)), "x"], tools=tools))
    error = seen.ctx.tool_outcomes[0].error
    if problem is None:
        assert (error, called) == (None, [arguments])
    else:
        assert (error, called) == (f"the arguments do not fit the schema of 'pay': {problem}", [])


async def test_an_unknown_tool_is_an_outcome() -> None:
    """It says what there is instead (TOL-3)."""
    seen = await walk(make_plan([asking("fly"), "x"], tools={"walk": lambda: None}))
    assert seen.ctx.tool_outcomes[0].error == "there is no tool 'fly'; there is walk"
    bare = await walk(make_plan([asking("fly"), "x"]))
    assert "no tool 'fly'" in str(bare.ctx.tool_outcomes[0].error)


async def test_a_pause_cuts_nothing_off() -> None:
    """Of four calls, three at once, one pauses: what runs ends and is recorded, the last never starts (TOL-4).

    When the run goes on, exactly the call that waited and the one that had not started are made (HK-4).
    """
    ran: list[str] = []
    paused = asyncio.Event()

    async def asks() -> str:
        ran.append("asks")
        paused.set()
        this = current_call()
        assert this is not None
        if "ok?" not in this.decisions:
            raise InvocationPaused(Interrupt("ok?", "approval"))
        return "a"

    async def slow() -> str:
        ran.append("slow")
        await paused.wait()
        await asyncio.sleep(0)
        ran.append("slow ended")
        return "s"

    tools: dict[str, Any] = {"asks": asks, "slow": slow, "quick": lambda: ran.append("quick"), "late": lambda: "l"}
    plan = make_plan([asking("asks", "slow", "quick", "late"), "end"], tools=tools, max_parallel_tools=3)
    seen = await walk(plan)
    assert ran == ["asks", "slow", "quick", "slow ended"]
    assert [event.call_id for event in seen.of("tool_result")] == ["slow", "quick"]
    assert [interrupt.call_id for interrupt in seen.ctx.interrupts] == ["asks"]
    assert (seen.kinds[-1], seen.raised, seen.report.reason) == ("approval", None, "paused")
    ran.clear()
    last = await go_on(plan, seen.record(), {"ok?": Approve()})
    assert ran == ["asks"]
    assert [each.value for each in last.ctx.tool_outcomes] == ["a", "s", None, "l"]
    assert [event.call_id for event in last.of("tool_result")] == ["asks", "late"]


async def test_several_pauses_leave_together() -> None:
    """All interrupts of the round, in request order, whoever was first (TOL-4, HK-5, EVT-11)."""
    second_paused = asyncio.Event()

    async def first() -> None:
        await second_paused.wait()
        raise InvocationPaused(Interrupt("q", "question"))

    async def second() -> None:
        second_paused.set()
        raise InvocationPaused(Interrupt("q", "in_doubt"))

    seen = await walk(make_plan([asking("first", "second")], tools={"first": first, "second": second}))
    last = seen.events[-1]
    assert (last.kind, last.interrupt) == ("question", last.interrupts[0])
    assert [(each.id, each.kind, each.call_id) for each in last.interrupts] == [
        ("q", "question", "first"),
        ("q#2", "in_doubt", "second"),
    ]


async def test_a_tool_knows_its_run_and_call() -> None:
    """From context, for just as long as it runs; its consumer sees nothing of it (RCX-10)."""
    saw: list[Any] = []

    def look() -> None:
        identity, this = current_run_identity(), current_call()
        saw.append((identity and identity.run_id, this and (this.call_id, this.name)))

    plan = make_plan([asking("look"), "x"], tools={"look": look})
    async for _ in InvocationKernel().stream(plan, ASK):
        assert (current_run_identity(), current_call()) == (None, None)
    seen = await walk(plan, run_id="r7")
    assert seen.raised is None
    assert saw[1] == ("r7", ("look", "look"))


async def test_progress_reaches_the_consumer_while_the_tool_runs() -> None:
    """With the run's own index, between call and result; the tool waits until it was taken (EVT-3, EVT-8)."""
    taken: list[int] = []

    async def work() -> str:
        this = current_call()
        assert this is not None
        for step in range(3):
            await this.progress({"step": step})
            taken.append(step)
        return "done"

    plan = make_plan([asking("work"), "x"], tools={"work": work})
    ahead = []
    async for event in InvocationKernel().stream(plan, ASK):
        if event.kind == "progress":
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            ahead.append(len(taken) - event.value["step"])
            assert event.call_id == "work"
    assert max(ahead) == 1


async def test_what_a_round_costs_is_linear(kernel: InvocationKernel) -> None:
    """Forty rounds of calls give forty outcomes, in order (TOL-1)."""
    steps = [call("echo", n=number) for number in range(40)]
    outcome = await kernel.run(make_plan([*steps, "x"], tools={"echo": lambda n: n}, max_model_rounds=41), ASK)
    assert isinstance(outcome, InvocationOutcome)
    assert [each.value for each in outcome.tool_outcomes] == list(range(40))
