"""Registered tools inside a run of the kernel: progress, identity, children, structured answers, providers' models."""

import asyncio
import contextvars
import threading
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from turnfleet_kernel import (
    Answer,
    InvocationKernel,
    InvocationOutcome,
    PausedOutcome,
    PlanError,
    PlanSpec,
    RequestContext,
    TurnRequest,
    compile_plan,
    current_run_identity,
    record_pause,
    resume,
)
from turnfleet_kernel.testing import ScriptedModel, call
from turnfleet_worker.errors import RegistrationError, ResponseError
from turnfleet_worker.registry import Registry
from turnfleet_worker.toolcontext import ToolContext

ASKED = TurnRequest("Go.", run_id="run-1")
TENANT = contextvars.ContextVar("TENANT", default="none")


def offering(*functions: Any, script: Any = None) -> Registry:
    """Make a registry of these tools, whose model `m` follows the script."""
    registry = Registry()
    registry.model("m", ScriptedModel(script or []))
    for function in functions:
        registry.tool(function)
    return registry


async def run(registry: Registry, **spec: Any) -> Any:
    """Run the plan of this spec."""
    plan = compile_plan(PlanSpec.model_validate({"name": "p", "model": "m", **spec}), registry)
    return await InvocationKernel().run(plan, ASKED)


async def test_a_tool_knows_its_run_and_call_also_in_a_thread() -> None:
    """From its context, and from the ambient identity, which plain functions carry along (RCX-10)."""

    def plain(context: ToolContext) -> list[Any]:
        identity = current_run_identity()
        return [context.run_id, context.call_id, identity.run_id if identity else None, TENANT.get()]

    TENANT.set("acme")
    outcome = await run(offering(plain, script=[call("plain", "c1"), "Done."]), tools=("plain",))
    assert outcome.tool_outcomes[0].value == ["run-1", "c1", "run-1", "acme"]


async def test_progress_becomes_events_of_the_run() -> None:
    """From an async tool and from a plain one's thread (EVT-3)."""

    async def count(context: ToolContext) -> int:
        await context.progress({"step": 1})
        return 1

    def count_plainly(context: ToolContext) -> int:
        context.emit({"step": 2})
        context.emit({"step": 3})
        return 2

    registry = offering(count, count_plainly, script=[call("count", "c1"), call("count_plainly", "c2"), "Done."])
    plan = compile_plan(PlanSpec(name="p", model="m", tools=("count", "count_plainly")), registry)
    told = [
        (event.call_id, event.value)
        async for event in InvocationKernel().stream(plan, ASKED)
        if event.kind == "progress"
    ]
    assert told == [("c1", {"step": 1}), ("c2", {"step": 2}), ("c2", {"step": 3})]


async def test_progress_that_is_not_json_is_the_tools_own_error() -> None:
    """It is refused before anything of it is published."""

    async def count(context: ToolContext) -> None:
        await context.progress(float("nan"))

    outcome = await run(offering(count, script=[call("count", "c1"), "Done."]), tools=("count",))
    assert outcome.tool_outcomes[0].error == "ValueError: the progress is not a finite number; JSON cannot carry it"


async def test_a_thread_that_waits_to_report_progress_is_let_go_when_the_run_ends() -> None:
    """The consumer left: nobody will take the progress (CXL-4, CXL-5)."""
    again, ended = threading.Event(), threading.Event()

    def endless(context: ToolContext) -> None:
        try:
            context.emit("here")
            again.set()
            context.emit("still here")
        finally:
            ended.set()

    def waiting() -> bool:
        return any(getattr(task.get_coro(), "__name__", "") == "progress" for task in asyncio.all_tasks())

    registry = offering(endless, script=[call("endless", "c1")])
    plan = compile_plan(PlanSpec(name="p", model="m", tools=("endless",)), registry)
    events = InvocationKernel().stream(plan, ASKED)
    async for event in events:
        if event.kind == "progress":
            break
    await asyncio.to_thread(again.wait, 30)
    async with asyncio.timeout(30):
        while not waiting():  # noqa: ASYNC110 - another thread gives the loop this task
            await asyncio.sleep(0.001)
    await asyncio.sleep(0)
    await events.aclose()
    assert ended.is_set()


async def test_a_delegate_is_called_as_a_tool_and_gives_its_output() -> None:
    """A plan of its own, under its own run id; what it used counts to its parent (DEL-1)."""
    registry = offering(script=[call("researcher", "c1", prompt="Find out."), "Done."])
    registry.model("child", ScriptedModel(["Found."]))
    registry.delegate("researcher", PlanSpec(name="research", model="child"), description="Finds things out.")
    plan = compile_plan(PlanSpec(name="p", model="m", delegates=("researcher",)), registry)
    described = plan.bindings.tools.describe("researcher")
    assert (described.description, list(described.schema or {})) == (
        "Finds things out.",
        ["additionalProperties", "properties", "required", "type"],
    )
    outcome = await InvocationKernel().run(plan, ASKED)
    assert isinstance(outcome, InvocationOutcome)
    assert outcome.tool_outcomes[0].value == "Found."
    assert outcome.usage.requests == 3


async def test_a_childs_question_pauses_its_parent_and_the_answer_reaches_the_child() -> None:
    """The child goes on where it stopped (DEL-6)."""
    registry = offering(script=[call("researcher", "c1", prompt="Find out."), "Done."])
    registry.model("child", ScriptedModel([call("ask", "q1", question="Where?"), "Found."]))
    registry.delegate("researcher", PlanSpec(name="research", model="child", tools=("ask",)))
    plan = compile_plan(PlanSpec(name="p", model="m", delegates=("researcher",)), registry)
    context = RequestContext(plan, run_id="run-1")
    paused = await InvocationKernel().run(plan, ASKED, context=context)
    assert isinstance(paused, PausedOutcome)
    (interrupt,) = paused.interrupts
    plan_2, request, context_2 = resume(plan, record_pause(plan, context), ASKED, {interrupt.id: Answer("there")})
    outcome = await InvocationKernel().run(plan_2, request, context=context_2)
    assert isinstance(outcome, InvocationOutcome)
    assert outcome.tool_outcomes[0].value == "Found."


async def test_a_plan_may_delegate_to_itself_as_deep_as_the_root_allows() -> None:
    """Compiling it does not go on for ever, and running it ends in an error that the model sees."""
    registry = offering(script=[call("again", "c1", prompt="x"), "Done."])
    spec = PlanSpec.model_validate({"name": "p", "model": "m", "delegates": ("again",), "limits": {"max_depth": 2}})
    registry.delegate("again", spec)
    outcome = await InvocationKernel().run(compile_plan(spec, registry), ASKED)
    assert isinstance(outcome, InvocationOutcome)
    assert outcome.text == "Done."


def test_a_delegate_whose_plan_names_what_does_not_exist_is_refused_with_the_parent() -> None:
    """However deep it is: not in the middle of a run."""
    registry = offering()
    registry.delegate("one", PlanSpec(name="one", model="m", delegates=("two",)))
    registry.delegate("two", PlanSpec(name="two", model="nonsense", tools=("wipe",)))
    with pytest.raises(PlanError) as refused:
        compile_plan(PlanSpec(name="p", model="m", delegates=("one",)), registry)
    assert refused.value.unknown == {"model": ("nonsense",), "tool": ("wipe",)}
    assert str(refused.value) == (
        "the delegate 'two' of plan 'p' names what does not exist: model 'nonsense'; tool 'wipe'"
    )


def test_a_delegate_needs_a_name_that_a_model_can_call() -> None:
    """As a tool does; and the host finds that its calls are never in doubt."""
    registry = offering()
    with pytest.raises(RegistrationError):
        registry.delegate("my agent", PlanSpec(name="child", model="m"))
    registry.delegate("child", PlanSpec(name="child", model="m"))
    policy = registry.policy("child")
    assert policy is not None
    assert policy.idempotent is True


async def test_a_structured_answer_is_the_outcomes_output() -> None:
    """Read off the last message and checked before anything is committed (STG-5)."""
    schema = {"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"]}
    outcome = await run(offering(script=['{"total": 5}']), response=schema)
    assert outcome.output == {"total": 5}
    with pytest.raises(ResponseError):
        await run(offering(script=["five"]), response=schema)


async def test_a_providers_model_runs_the_whole_loop() -> None:
    """Declarations out, calls in, outcomes back, an answer: pydantic-ai's test model in place of a provider."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        last = messages[-1].parts[-1]
        if last.part_kind == "tool-return":
            return ModelResponse(parts=[TextPart(f"It is {last.content}.")])
        assert [tool.name for tool in info.function_tools] == ["add"]
        return ModelResponse(parts=[ToolCallPart("add", {"left": 1, "right": 2}, "c1")])

    def add(left: int, right: int) -> int:
        """Add."""
        return left + right

    registry = offering(add)
    registry.model("theirs", FunctionModel(answer))
    outcome = await run(registry, model="theirs", tools=("add",), instructions="Be brief.")
    assert outcome.text == "It is 3."
    assert outcome.usage.requests == 2


async def test_a_call_whose_arguments_are_no_json_object_is_an_error_the_model_sees() -> None:
    """A provider hands on what its model wrote, however broken."""
    turns = iter(
        [
            ModelResponse(parts=[ToolCallPart("add", '{"left": 1,', "c1")]),
            ModelResponse(parts=[TextPart("Sorry.")]),
        ]
    )

    def add(left: int) -> int:
        return left

    registry = offering(add)
    registry.model("theirs", FunctionModel(lambda _messages, _info: next(turns)))
    outcome = await run(registry, model="theirs", tools=("add",))
    assert outcome.tool_outcomes[0].error == (
        "the arguments do not fit the schema of 'add': unknown '(these arguments are no JSON object)'"
    )
    assert outcome.text == "Sorry."
