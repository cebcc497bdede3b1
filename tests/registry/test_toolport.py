"""A plan's tool port: its own tools, their outcomes as JSON, and texts that a model can act on."""

import asyncio
import functools
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

from turnfleet_kernel.contracts.spec import PlanSpec
from turnfleet_kernel.contracts.values import ToolDescription, ToolRequest
from turnfleet_kernel.ports import ToolPort
from turnfleet_worker.registry import Registry
from turnfleet_worker.toolcontext import ToolContext


def port(*functions: Any, names: tuple[str, ...] | None = None) -> ToolPort:
    """Register functions, and bind a plan that may call them (or only `names` of them)."""
    registry = Registry()
    for function in functions:
        registry.tool(function)
    tools = names if names is not None else tuple(function.__name__ for function in functions)
    return registry.bind_tools(PlanSpec(name="desk", model="m", tools=tools))


async def add(left: int, right: int = 1) -> int:
    """Add two numbers."""
    return left + right


async def test_an_async_tool_gives_its_value() -> None:
    """With the call's id, its name, and how long it took."""
    outcome = await port(add).call(ToolRequest("c1", "add", {"left": 2}))
    assert (outcome.call_id, outcome.name, outcome.value, outcome.error) == ("c1", "add", 3, None)
    assert outcome.duration_ms > 0


async def test_a_plain_tool_runs_in_a_thread() -> None:
    """It may block without holding up the loop."""
    release = threading.Event()

    def wait() -> bool:
        return release.wait(30)

    call = asyncio.create_task(port(wait).call(ToolRequest("c1", "wait")))
    await asyncio.sleep(0)
    release.set()
    assert (await call).value is True


async def test_a_plain_function_that_gives_a_coroutine_is_awaited() -> None:
    """A lambda around an async function is as good as the function."""

    def later(left: int) -> Any:
        return add(left)

    assert (await port(later).call(ToolRequest("c1", "later", {"left": 1}))).value == 2


async def test_async_callables_of_every_kind_run_on_the_loop() -> None:
    """Bound methods, partials and objects too: none is sent to a thread by mistake."""

    class Desk:
        async def method(self) -> int:
            return threading.get_ident()

        async def __call__(self) -> int:
            return threading.get_ident()

    registry = Registry()
    registry.tool(Desk().method)
    registry.tool(Desk(), name="thing")
    registry.tool(functools.partial(Desk().method), name="part")
    tools = registry.bind_tools(PlanSpec(name="desk", model="m", tools=("method", "thing", "part")))
    seen = [(await tools.call(ToolRequest("c", name))).value for name in tools.names()]
    assert seen == [threading.get_ident()] * 3


@dataclass
class Receipt:
    """What a refund gives."""

    order: str
    amount: Decimal


async def test_results_become_json() -> None:
    """Dataclasses and decimals are written as pydantic writes them."""

    def refund() -> Receipt:
        return Receipt("A", Decimal("9.90"))

    outcome = await port(refund).call(ToolRequest("c1", "refund"))
    assert outcome.value == {"order": "A", "amount": "9.90"}


@pytest.mark.parametrize(
    ("result", "what"),
    [
        (object(), "its result is a object that has no JSON form"),
        (float("inf"), "its result is not a finite number; JSON cannot carry it"),
        ({"sum": [float("nan")]}, "its result.sum[0] is not a finite number; JSON cannot carry it"),
        (b"\xff", "its result is a bytes that has no JSON form"),
        ("\ud800", "its result holds half a surrogate pair; JSON cannot carry it"),
    ],
)
async def test_a_result_that_is_not_json_is_an_error_that_names_the_tool(result: Any, what: str) -> None:
    """The model hears that the tool did run: calling it again would repeat the effect."""

    def odd() -> Any:
        return result

    outcome = await port(odd).call(ToolRequest("c1", "odd"))
    assert outcome.error == f"The tool 'odd' ran to its end, but {what}; it does not help to call it again."
    assert outcome.value is None


async def test_a_result_that_refers_to_itself_is_an_error() -> None:
    """And no endless loop."""

    def round_about() -> Any:
        value: list[Any] = []
        value.append(value)
        return value

    outcome = await port(round_about).call(ToolRequest("c1", "round_about"))
    assert outcome.error is not None
    assert "'round_about' ran to its end" in outcome.error


async def test_a_tool_that_raises_is_an_error_outcome() -> None:
    """Type and message, for the model (TOL-2)."""

    def refund() -> None:
        raise LookupError("no such order")

    assert (await port(refund).call(ToolRequest("c1", "refund"))).error == "LookupError: no such order"


@pytest.mark.parametrize("end", [SystemExit(0), SystemExit(1), KeyboardInterrupt()])
async def test_a_tool_cannot_end_the_worker(end: BaseException) -> None:
    """A command-line function that calls sys.exit() is a failed call, in a thread and on the loop."""

    def plain() -> None:
        raise end

    async def loop() -> None:
        raise end

    tools = port(plain, loop)
    for name in tools.names():
        outcome = await tools.call(ToolRequest("c1", name))
        assert outcome.error == f"{type(end).__name__}: the tool {name!r} asked the process to end, which was ignored"


async def test_arguments_that_do_not_fit_are_an_error_outcome() -> None:
    """The function is not called, and the model hears what it takes (TOL-3)."""
    outcome = await port(add).call(ToolRequest("c1", "add", {"left": "two"}))
    assert outcome.error == (
        "The arguments do not fit the tool 'add': left: Input should be a valid integer. "
        "Call it again with corrected arguments; it takes left: integer, right (optional): integer."
    )


async def test_only_the_plans_tools_can_be_called() -> None:
    """Another registered tool is as unknown as one that does not exist (IPL-5, TOL-3)."""

    async def wipe() -> None: ...

    tools = port(add, wipe, names=("add",))
    assert tools.names() == ("add",)
    assert tools.schema("wipe") is None
    for name in ("wipe", "nonsense"):
        outcome = await tools.call(ToolRequest("c1", name))
        assert outcome.error == f"There is no tool {name!r} here. Tools: add."


def test_the_port_describes_its_tools() -> None:
    """What a model adapter declares is what calls are checked against."""
    tools = port(add)
    assert tools.describe("add") == ToolDescription("add", "Add two numbers.", tools.schema("add"))
    with pytest.raises(KeyError):
        tools.describe("wipe")


async def test_a_tool_may_ask_for_its_context() -> None:
    """The call id is the idempotency key; outside a run there is no run id."""

    def note(text: str, context: ToolContext) -> list[str]:
        return [text, context.run_id, context.call_id, context.tool]

    outcome = await port(note).call(ToolRequest("c1", "note", {"text": "x"}))
    assert outcome.value == ["x", "", "c1", "note"]


async def test_a_cancelled_plain_tool_can_see_it_and_is_waited_for() -> None:
    """It works in steps, looks, and stops early (CXL-4)."""
    started, ended = threading.Event(), threading.Event()

    def work(context: ToolContext) -> None:
        started.set()
        while not context.cancelled:
            threading.Event().wait(0.001)
        ended.set()

    call = asyncio.create_task(port(work).call(ToolRequest("c1", "work")))
    await asyncio.to_thread(started.wait, 30)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert ended.is_set()


async def test_emit_on_the_loop_says_what_to_use_instead() -> None:
    """It would block the loop for ever."""

    async def work(context: ToolContext) -> None:
        context.emit(1)

    outcome = await port(work).call(ToolRequest("c1", "work"))
    assert outcome.error == (
        "RuntimeError: emit() is for plain functions; an async tool says: await context.progress(value)"
    )


async def test_outside_a_run_progress_goes_nowhere() -> None:
    """A tool that reports progress can be tried on its own."""

    async def work(context: ToolContext) -> str:
        await context.progress(1)
        return "done"

    def plain(context: ToolContext) -> str:
        context.emit(1)
        return "done"

    tools = port(work, plain)
    assert [(await tools.call(ToolRequest("c1", name))).value for name in tools.names()] == ["done", "done"]


def test_a_generator_is_no_tool() -> None:
    """Several values are progress and one result."""

    async def stream() -> AsyncIterator[int]:
        yield 1

    with pytest.raises(ValueError, match="yields: return one value"):
        port(stream)
