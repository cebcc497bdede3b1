"""Egress: what may still be refused has not left."""

import pytest
from kernel.kit import indices, walk

from turnfleet_kernel import Delta, InvocationPlan, ModelTurn, Phase, Stage, StageFrame, ToolRequest, UsageDelta
from turnfleet_kernel.testing import RecordingSink, make_plan


def guarded(sink: RecordingSink | None = None, *, refuse: str = "secret") -> InvocationPlan:
    """Make a plan of two rounds whose egress stage refuses a word."""

    def judge(frame: StageFrame) -> None:
        if frame.turn is not None and refuse in frame.turn.text:
            raise PermissionError("refused")

    first = ModelTurn(
        "let me look",
        UsageDelta(requests=1),
        shown=(Delta("reasoning", "hm"), Delta("tool_call", "{"), Delta("text", "let me look")),
        tool_requests=(ToolRequest("c1", "look", {}),),
    )
    second = ModelTurn(
        "the secret is 42",
        UsageDelta(requests=1),
        shown=(Delta("reasoning", "secret?"), Delta("text", "the secret is 42")),
    )
    stage = Stage("governance.egress", Phase.POST_MODEL, judge)
    return make_plan([first, second], tools={"look": lambda: "seen"}, stages=[stage], sink=sink)


async def test_deltas_wait_for_the_stage() -> None:
    """Text, reasoning and call deltas of a round leave after post-model accepted it, in order (STG-10)."""
    seen = await walk(guarded(refuse="nothing"))
    kinds = [event.kind for event in seen.events]
    assert kinds[:4] == ["stage", "reasoning_delta", "tool_call_delta", "text_delta"]
    assert seen.text == "let me lookthe secret is 42"


async def test_a_refused_round_leaves_no_trace_of_its_text() -> None:
    """Round one was shown; of round two no event exists anywhere, and the indices have no hole (STG-10, EVT-2)."""
    sink = RecordingSink()
    seen = await walk(guarded(sink))
    assert "secret" not in "".join(str(dict(event.payload)) for event in [*seen.events, *sink.events])
    assert indices(seen) == list(range(len(seen.events)))
    assert [event.index for event in sink.events] == indices(seen)
    assert (seen.events[-1].kind, seen.events[-1].error) == ("error", "PermissionError: refused")
    assert seen.ctx.text == "let me look"


@pytest.mark.parametrize("guard", [False, True])
async def test_without_the_stage_deltas_leave_at_once(*, guard: bool) -> None:
    """Post-model of another name withholds nothing (STG-10)."""
    stage_id = "governance.egress" if guard else "audit"
    seen = await walk(make_plan(["one two"], stages=[Stage(stage_id, Phase.POST_MODEL, lambda _: None)]))
    first = ["stage", "text_delta"] if guard else ["text_delta", "text_delta"]
    assert [event.kind for event in seen.events][:2] == first
