"""The loop: phases in order, rounds until an answer or a limit, one stream for every consumer."""

from typing import Any

import pytest
from kernel.kit import ASK, contents, indices, walk

from turnfleet_kernel import (
    TOOL_LIMIT,
    Delta,
    InvocationKernel,
    InvocationOutcome,
    InvocationRunner,
    ModelTurn,
    Phase,
    RequestContext,
    Stage,
    ToolRequest,
    TurnRequest,
    UsageDelta,
)
from turnfleet_kernel.structured import JsonResponse
from turnfleet_kernel.testing import CountingIds, ListConversation, ScriptedModel, call, calls, make_plan


async def run(kernel: InvocationKernel, plan: Any, request: TurnRequest = ASK) -> InvocationOutcome[Any]:
    """Run to completion."""
    outcome = await kernel.run(plan, request)
    assert isinstance(outcome, InvocationOutcome)
    return outcome


async def test_a_run_with_a_tool(kernel: InvocationKernel) -> None:
    """The model asks, the tool answers, the model sums up; the outcome tells it all (EVT-6)."""
    plan = make_plan(
        [call("add", "c1", a=1, b=2), "three"], tools={"add": lambda a, b: a + b}, instructions="Be exact."
    )
    outcome = await run(kernel, plan, TurnRequest("1 + 2?", run_id="r1"))
    assert (outcome.text, outcome.output, outcome.run_id, outcome.stop_reason) == ("three", "three", "r1", "stop")
    assert outcome.usage == UsageDelta(requests=2)
    assert [(each.call_id, each.value) for each in outcome.tool_outcomes] == [("c1", 3)]
    assert contents(outcome.messages) == [
        ("system", "Be exact."),
        ("user", "1 + 2?"),
        ("assistant", ""),
        ("tool", 3),
        ("assistant", "three"),
    ]


async def test_events_come_in_the_order_of_the_phases() -> None:
    """Call, result, text and usage as they happen, then done (EVT-2, EVT-3)."""
    seen = await walk(make_plan([call("add", a=1), "it is one"], tools={"add": lambda a: a}))
    assert seen.kinds == [
        "usage",
        "tool_call",
        "tool_result",
        "text_delta",
        "text_delta",
        "text_delta",
        "usage",
        "done",
    ]
    assert indices(seen) == list(range(8))


async def test_stages_run_in_the_order_of_the_phases() -> None:
    """Two rounds, the second without tools: it has no pre- or post-tool (STG-1, STG-3)."""
    ran: list[str] = []
    phases = [phase for phase in Phase if phase is not Phase.BIND]
    stages = [Stage(f"s-{phase.value}", phase, lambda frame: ran.append(frame.phase.value)) for phase in phases]
    seen = await walk(make_plan([call("add", a=1), "end"], tools={"add": lambda a: a}, stages=stages))
    round_one = ["pre-model", "post-model", "pre-tool", "post-tool"]
    assert ran == ["resolve", "compile", *round_one, "pre-model", "post-model", "finalize"]
    assert [event.trace.phase for event in seen.of("stage")] == ran


async def test_a_round_without_tools_is_closed_too() -> None:
    """The answer itself stands in the transcript (STG-3)."""
    closed: list[tuple[str, int, int]] = []

    class Watched(ListConversation):
        def close_round(self, transcript: Any, turn: Any, requests: Any, outcomes: Any) -> None:
            closed.append((turn.text, len(requests), len(outcomes)))
            super().close_round(transcript, turn, requests, outcomes)

    await walk(make_plan([call("add", a=1), "end"], tools={"add": lambda a: a}, conversation=Watched()))
    assert closed == [("", 1, 1), ("end", 0, 0)]


async def test_a_model_that_never_stops_asking_is_stopped(kernel: InvocationKernel) -> None:
    """After the last model round its calls are made, then the run is done: tool_limit, no error (STG-6)."""
    model = ScriptedModel([call("add", a=number) for number in range(5)])
    plan = make_plan(model, tools={"add": lambda a: a}, max_model_rounds=2)
    outcome = await run(kernel, plan)
    assert outcome.stop_reason == TOOL_LIMIT
    assert (len(model.calls), [each.value for each in outcome.tool_outcomes]) == (2, [0, 1])


async def test_a_limit_asks_for_no_structure(kernel: InvocationKernel) -> None:
    """A run cut short has no answer to extract; it is done all the same (STG-6)."""
    plan = make_plan(
        [call("add", a=1)], tools={"add": lambda a: a}, response=JsonResponse({"type": "object"}), max_model_rounds=1
    )
    outcome = await run(kernel, plan)
    assert (outcome.output, outcome.stop_reason) == (None, TOOL_LIMIT)


@pytest.mark.parametrize(
    ("limits", "stop_reason"),
    [
        ({"max_requests": 1}, "request_limit"),
        ({"max_input_tokens": 10}, "input_token_limit"),
        ({"max_output_tokens": 5}, "output_token_limit"),
        ({"max_total_tokens": 15}, "total_token_limit"),
    ],
)
async def test_each_usage_limit_has_its_own_stop_reason(
    kernel: InvocationKernel, limits: dict[str, Any], stop_reason: str
) -> None:
    """Looked at before each model round, ending the run as the tool limit does (STG-6)."""
    turn = ModelTurn("", UsageDelta(10, 5, 1), None, (ToolRequest(None, "add", {"a": 1}),))
    outcome = await run(kernel, make_plan([turn, "never"], tools={"add": lambda a: a}, **limits))
    assert (outcome.stop_reason, outcome.text) == (stop_reason, "")


async def test_call_ids_are_unique_in_the_run(kernel: InvocationKernel) -> None:
    """Kept where present and unused, else fresh; in request order, over rounds too (RES-3)."""
    asked = [
        ToolRequest("x", "echo", {"n": 1}),
        ToolRequest("x", "echo", {"n": 2}),
        ToolRequest(None, "echo", {"n": 3}),
    ]
    plan = make_plan(
        [calls(*asked), call("echo", "x", n=4), "end"], tools={"echo": lambda n: n}, ids=CountingIds("fresh")
    )
    outcome = await run(kernel, plan, TurnRequest("go", run_id="r"))
    assert [(each.call_id, each.value) for each in outcome.tool_outcomes] == [
        ("x", 1),
        ("fresh-1", 2),
        ("fresh-2", 3),
        ("fresh-3", 4),
    ]


async def test_four_ways_to_consume_show_the_same(kernel: InvocationKernel) -> None:
    """Blocking, events, text and typed are projections of one stream (IPL-2, STG-9)."""
    plan = make_plan([call("add", a=1), "the answer is one"], tools={"add": lambda a: a})
    outcome = await run(kernel, plan)
    streamed = [event async for event in kernel.stream(plan, ASK)]
    text = [piece async for piece in kernel.stream_text(plan, ASK)]
    typed = [event async for event in kernel.stream_typed(plan, ASK)]
    assert "".join(text) == outcome.text == "the answer is one"
    assert len(text) == 4
    assert [event.kind for event in streamed] == [event.kind for event in typed]
    assert streamed[-1].outcome.messages[-1] == outcome.messages[-1]


async def test_every_way_to_consume_takes_a_context(kernel: InvocationKernel) -> None:
    """The caller's context tells how it ended, whichever projection was used (STG-9, RCX-11)."""
    plan = make_plan(["hi"])
    contexts = [RequestContext(plan) for _ in range(4)]
    await kernel.run(plan, ASK, context=contexts[0])
    async for _ in kernel.stream(plan, ASK, context=contexts[1]):
        pass
    async for _ in kernel.stream_text(plan, ASK, context=contexts[2]):
        pass
    async for _ in kernel.stream_typed(plan, ASK, context=contexts[3]):
        pass
    assert [ctx.report and ctx.report.reason for ctx in contexts] == ["completed"] * 4


async def test_a_blocking_run_shows_what_the_turn_says_to_show(kernel: InvocationKernel) -> None:
    """By default its text as one delta; ``shown`` where the port says otherwise (EVT-6)."""
    for shown, kinds in (
        (None, ["text_delta"]),
        ((Delta("reasoning", "hm"), Delta("text", "an swer")), ["reasoning_delta", "text_delta"]),
        ((), []),
    ):
        plan = make_plan([ModelTurn("an swer", shown=shown)])
        events = InvocationRunner.events(kernel, plan, ASK, stream_model=False)
        seen = [event async for event in events]
        assert [event.kind for event in seen] == [*kinds, "done"]
        assert seen[-1].outcome.text == "an swer"


def test_opening_a_turn_dispatches_no_stage(kernel: InvocationKernel) -> None:
    """assemble_prompt and open_turn are synchronous and run no stage (STG-7, STG-9)."""
    ran: list[str] = []
    plan = make_plan(instructions="I", stages=[Stage("s", Phase.COMPILE, lambda _: ran.append("s"))])
    request = TurnRequest("p", history=({"role": "user", "content": "before"},))
    assembly = kernel.assemble_prompt(plan, request)
    assert (assembly.instructions, assembly.prompt) == ("I", "p")
    assert contents(kernel.open_turn(plan, RequestContext(plan), request)) == [
        ("system", "I"),
        ("user", "before"),
        ("user", "p"),
    ]
    assert ran == []


async def test_the_messages_of_an_outcome_are_the_history_of_the_next_turn() -> None:
    """Turn after turn the instructions stand once, in front."""
    model = ScriptedModel(["said"])
    plan = make_plan(model, instructions="Be brief.")
    history: tuple[Any, ...] = ()
    for turn in range(3):
        outcome = await InvocationKernel().run(plan, TurnRequest(f"turn {turn}", history=history, run_id=f"r{turn}"))
        assert isinstance(outcome, InvocationOutcome)
        history = outcome.messages
    assert [message["role"] for message in model.calls[-1]] == ["system", *["user", "assistant"] * 2, "user"]


async def test_opening_a_turn_with_its_stages(kernel: InvocationKernel) -> None:
    """The transcript and the traces; handlers can be replaced by the id of their stage (STG-9)."""
    ran: list[str] = []
    plan = make_plan(stages=[Stage("s", Phase.COMPILE, lambda _: ran.append("own"))])
    ctx = RequestContext(plan)
    transcript, traces = await kernel.open_turn_dispatched(
        plan, ctx, ASK, handlers={"s": lambda _: ran.append("replaced")}
    )
    assert contents(transcript) == [("user", "do it")]
    assert ([trace.stage_id for trace in traces], ran) == (["s"], ["replaced"])


class Counted(JsonResponse):
    """A response port that counts how often it is asked."""

    asked = 0

    async def extract(self, transcript: Any) -> object:
        """Count and extract."""
        self.asked += 1
        return await super().extract(transcript)


async def test_a_structured_answer_is_extracted(kernel: InvocationKernel) -> None:
    """JSON, with or without a fence, checked against the schema (STG-5)."""
    response = JsonResponse({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    for said in ('{"n": 1}', '```json\n{"n": 1}\n```'):
        assert (await run(kernel, make_plan([said], response=response))).output == {"n": 1}
    for said in ("no json", '{"n": "one"}'):
        with pytest.raises(ValueError, match="the answer"):
            await kernel.run(make_plan([said], response=response), ASK)


async def test_what_fails_extraction_commits_nothing() -> None:
    """Finish comes before finalize (STG-5)."""
    committed: list[str] = []
    stage = Stage("commit", Phase.FINALIZE, lambda _: committed.append("x"))
    seen = await walk(make_plan(["no json"], response=JsonResponse({}), stages=[stage]))
    assert (seen.report.reason, committed, seen.kinds[-1]) == ("error", [], "error")


async def test_a_failing_finalize_stage_repeats_no_extraction() -> None:
    """The run is an error, and the report says which stage (STG-5, RCX-11)."""
    response = Counted({})

    def explode(_: object) -> None:
        raise RuntimeError("disk full")

    seen = await walk(make_plan(["{}"], response=response, stages=[Stage("commit", Phase.FINALIZE, explode)]))
    assert (response.asked, seen.kinds[-1]) == (1, "error")
    assert seen.report.stage_failures == ("stage commit: RuntimeError: disk full",)
