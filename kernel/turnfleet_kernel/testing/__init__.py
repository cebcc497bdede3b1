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

from turnfleet_kernel.conversation import ListConversation
from turnfleet_kernel.testing.foretold import CountingIds, ManualClock
from turnfleet_kernel.testing.plans import make_plan
from turnfleet_kernel.testing.recording import RecordingSink
from turnfleet_kernel.testing.scripted import ScriptedModel, call, calls
from turnfleet_kernel.testing.toolbox import ToolBox

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
