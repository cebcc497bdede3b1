"""What tests of agents need, theirs and ours: scripted models, plain functions as tools, sinks that remember.

A model that says what it was told to say, and functions as its tools::

    plan = make_plan([call("add", a=1, b=2), "three"], tools={"add": lambda a, b: a + b})
    outcome = await InvocationKernel().run(plan, TurnRequest("1 + 2?"))
    assert outcome.text == "three"
    assert outcome.tool_outcomes[0].value == 3

What the model was shown, and what a sink has seen::

    model, sink = ScriptedModel([call("add", a=1, b=2), "three"]), RecordingSink()
    plan = make_plan(model, tools={"add": lambda a, b: a + b}, sink=sink)
    await InvocationKernel().run(plan, TurnRequest("1 + 2?"))
    assert [message["role"] for message in model.calls[1]] == ["user", "assistant", "tool"]
    assert sink.kinds == ["usage", "tool_call", "tool_result", "text_delta", "usage", "done"]

A model that is slow, then fails; several calls at once; ids that can be foretold::

    both = calls(ToolRequest("a", "look", {}), ToolRequest(None, "look", {}))
    plan = make_plan([(0.001, both), ConnectionError("down")], tools={"look": lambda: 1}, ids=CountingIds("call"))
    ctx = RequestContext(plan, run_id="r")
    try:
        await InvocationKernel().run(plan, TurnRequest("look"), context=ctx)
    except ConnectionError:
        assert [outcome.call_id for outcome in ctx.tool_outcomes] == ["a", "call-1"]

Time that passes only when it is told to::

    clock = ManualClock()
    late = Stage("late", Phase.PRE_MODEL, lambda frame: clock.advance(60))
    plan = make_plan(["never said"], stages=[late], clock=clock, deadline_seconds=30)
    try:
        await InvocationKernel().run(plan, TurnRequest("hi"))
    except DeadlineExceeded as error:
        assert "calling the model" in str(error)

A run that waits for a person, and goes on::

    paid = []
    pay = make_plan([call("pay", "p1", amount=5), "paid"], tools={"pay": lambda amount: paid.append(amount)},
                    stages=[approval_stage(lambda request: request.arguments["amount"] > 1)])
    ctx = RequestContext(pay)
    paused = await InvocationKernel().run(pay, TurnRequest("pay"), context=ctx)
    assert [interrupt.id for interrupt in paused.interrupts] == ["approval:p1"]
    record = record_pause(pay, ctx)
    plan, request, ctx = resume(pay, record, TurnRequest("pay"), {"approval:p1": Edit({"amount": 4})})
    await InvocationKernel().run(plan, request, context=ctx)
    assert paid == [4]
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from turnfleet_kernel.contracts.events import KernelEvent
from turnfleet_kernel.contracts.limits import PlanLimits
from turnfleet_kernel.contracts.stages import Stage
from turnfleet_kernel.contracts.values import (
    Delta,
    ModelTurn,
    RunIdentity,
    ToolDescription,
    ToolOutcome,
    ToolRequest,
    UsageDelta,
)
from turnfleet_kernel.conversation import ListConversation
from turnfleet_kernel.defaults import SystemClock, SystemIds
from turnfleet_kernel.identity import current_run_identity
from turnfleet_kernel.plan import InvocationPlan, ModelPalette, PlanBindings, PlanIdentity, StageProgram
from turnfleet_kernel.ports import (
    Clock,
    ConversationPort,
    EventSink,
    Ids,
    ModelPort,
    ModelRound,
    ResponsePort,
    ToolPort,
    Transcript,
)

__all__ = [
    "CountingIds",
    "ListConversation",
    "ManualClock",
    "RecordingSink",
    "ScriptedModel",
    "ToolBox",
    "call",
    "calls",
    "make_plan",
]

Step: TypeAlias = "ModelTurn | str | BaseException | tuple[float, Step]"
"""A turn, its text, an exception to raise, or one of these after so many seconds."""


def call(name: str, /, call_id: str | None = None, **arguments: Any) -> ModelTurn:
    """Give a turn that asks for one tool call."""
    return calls(ToolRequest(call_id, name, arguments))


def calls(*requests: ToolRequest, text: str = "") -> ModelTurn:
    """Give a turn that asks for several tool calls at once."""
    return ModelTurn(text, UsageDelta(requests=1), "tool_calls", requests)


class ScriptedModel:
    """A model that says what it was told to say, step by step, in each run from the first.

    Which step is next is counted by run; a run that goes on in another process (or with another ScriptedModel) goes
    on where its transcript stands. A step that was cut off is taken again. ``calls`` keeps the transcript of every call
    as it was then. Streams word by word.

    Raises:
        AssertionError: a run asks for more steps than there are.
    """

    def __init__(self, steps: Iterable[Step]) -> None:
        """Say these steps."""
        self._steps = tuple(steps)
        self._next: dict[str | None, int] = {}
        self.calls: list[Any] = []

    async def invoke(self, transcript: Transcript) -> ModelTurn:
        """Take the next step."""
        return await self._take(self._place(transcript))

    def stream(self, transcript: Transcript) -> ModelRound:
        """Take the next step, word by word."""
        return _ScriptedRound(self, self._place(transcript))

    def _place(self, transcript: Transcript) -> int:
        self.calls.append(list(transcript) if isinstance(transcript, list) else transcript)
        run_id = _run_id()
        place = max(self._next.get(run_id, 0), _turns_taken(transcript))
        self._next[run_id] = place + 1
        return place

    def _give_back(self, place: int) -> None:
        run_id = _run_id()
        self._next[run_id] = min(self._next.get(run_id, 0), place)

    async def _take(self, place: int) -> ModelTurn:
        if place >= len(self._steps):
            raise AssertionError(f"the script has {len(self._steps)} steps; step {place + 1} was asked for")
        step = self._steps[place]
        while isinstance(step, tuple):
            delay, step = step
            try:
                await asyncio.sleep(delay)
            except asyncio.CancelledError:
                self._give_back(place)
                raise
        if isinstance(step, BaseException):
            raise step
        return step if isinstance(step, ModelTurn) else ModelTurn(step, UsageDelta(requests=1), "stop")


class _ScriptedRound:
    def __init__(self, model: ScriptedModel, place: int) -> None:
        self._model = model
        self._place = place
        self._turn: ModelTurn | None = None

    async def deltas(self) -> AsyncIterator[Delta]:
        turn = await self._model._take(self._place)  # noqa: SLF001 - the two are one thing
        words = re.findall(r"\s*\S+\s*$|\s*\S+|\s+$", turn.text)
        try:
            for delta in [Delta("text", word) for word in words] if turn.shown is None else turn.shown:
                yield delta
        except (asyncio.CancelledError, GeneratorExit):
            self._model._give_back(self._place)  # noqa: SLF001
            raise
        self._turn = turn

    def result(self) -> ModelTurn:
        if self._turn is None:
            raise AssertionError("result() was asked for before the deltas were exhausted")
        return self._turn


def _run_id() -> str | None:
    identity = current_run_identity()
    return None if identity is None else identity.run_id


def _turns_taken(transcript: Transcript) -> int:
    """Count the assistant's messages since the last prompt, where the transcript is a list of messages."""
    taken = 0
    for message in reversed(transcript if isinstance(transcript, list) else []):
        role = message.get("role") if isinstance(message, dict) else None
        if role == "user":
            break
        taken += role == "assistant"
    return taken


class ToolBox:
    """Functions as tools, plain or async. What they return is the value; what they raise is the run's to handle."""

    def __init__(
        self,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        *,
        schemas: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """Offer these functions; ``schemas`` holds JSON Schemas of arguments, by name."""
        self._functions = dict(functions or {})
        self._schemas = dict(schemas or {})

    async def call(self, request: ToolRequest) -> ToolOutcome:
        """Call a function with the request's arguments by name."""
        function = self._functions.get(request.name)
        if function is None:
            error = f"there is no tool {request.name!r}; there is {', '.join(self._functions) or 'none'}"
            return ToolOutcome(str(request.call_id), request.name, error=error)
        value = function(**request.arguments)
        if inspect.isawaitable(value):
            value = await value
        return ToolOutcome(str(request.call_id), request.name, value)

    def schema(self, name: str) -> Mapping[str, Any] | None:
        """Give the schema declared for a name."""
        return self._schemas.get(name)

    def names(self) -> tuple[str, ...]:
        """List the functions."""
        return tuple(self._functions)

    def describe(self, name: str) -> ToolDescription:
        """Describe a function by its docstring."""
        return ToolDescription(name, inspect.getdoc(self._functions[name]) or "", self.schema(name))


class RecordingSink:
    """A sink that keeps what it is given; bound to each run it serves, it keeps that too."""

    def __init__(self) -> None:
        """Start empty."""
        self.events: list[KernelEvent] = []
        self.bound: list[tuple[RunIdentity, Mapping[str, Any]]] = []
        self.closed = 0

    def bind(self, identity: RunIdentity, metadata: Mapping[str, Any]) -> RecordingSink:
        """Note the run; one list serves all runs."""
        self.bound.append((identity, metadata))
        return self

    async def deliver(self, event: KernelEvent) -> None:
        """Keep the event."""
        self.events.append(event)

    async def close(self) -> None:
        """Count the runs that ended."""
        self.closed += 1

    @property
    def kinds(self) -> list[str]:
        """The kinds of all events, in order."""
        return [event.kind for event in self.events]


class ManualClock:
    """A clock that stands still until it is moved."""

    def __init__(self, start: datetime = datetime(2024, 1, 1, tzinfo=UTC)) -> None:
        """Start at a moment."""
        self._start = start
        self._passed = 0.0

    def now(self) -> datetime:
        """Tell the time."""
        return self._start + timedelta(seconds=self._passed)

    def monotonic(self) -> float:
        """Tell the seconds passed."""
        return self._passed

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._passed += seconds


class CountingIds:
    """Ids that can be foretold: ``id-1``, ``id-2`` and so on."""

    def __init__(self, prefix: str = "id") -> None:
        """Count from one."""
        self._prefix = prefix
        self._given = 0

    def new(self) -> str:
        """Give the next one."""
        self._given += 1
        return f"{self._prefix}-{self._given}"


def make_plan(
    model: ModelPort | ModelPalette | Sequence[Step] | None = None,
    tools: Mapping[str, Callable[..., Any]] | ToolPort | None = None,
    stages: Iterable[Stage] = (),
    sink: EventSink | None = None,
    *,
    name: str = "test",
    instructions: str = "",
    conversation: ConversationPort | None = None,
    response: ResponsePort | None = None,
    clock: Clock | None = None,
    ids: Ids | None = None,
    **limits: Any,
) -> InvocationPlan:
    """Make a compiled plan from parts.

    ``model`` may be the steps of a ScriptedModel, ``tools`` a dict of functions; ``limits`` are those of PlanLimits.
    Plans of the same name have the same plan id.
    """
    bound = ScriptedModel(model or ["done"]) if model is None or isinstance(model, Sequence) else model
    return InvocationPlan(
        identity=PlanIdentity(hashlib.sha256(name.encode()).hexdigest(), name),
        instructions=instructions,
        limits=PlanLimits(**limits),
        bindings=PlanBindings(
            model=bound,
            tools=ToolBox(tools) if tools is None or isinstance(tools, Mapping) else tools,
            conversation=conversation or ListConversation(),
            response=response,
            event_sink=sink,
            clock=clock or SystemClock(),
            ids=ids or SystemIds(),
        ),
        stage_program=StageProgram(tuple(stages)),
    )
