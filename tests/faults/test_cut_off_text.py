"""A turn is in the journal and its text only in part in the log: readers rewind, and get it whole, once (HK-4)."""

from dataclasses import replace
from typing import Any

import pytest
from worker.conftest import Shop

from turnfleet.store import commands
from turnfleet_kernel import ModelTurn, PlanSpec, ToolRequest, UsageDelta
from turnfleet_kernel.testing import ScriptedModel
from turnfleet_worker import Registry

SPEC = PlanSpec(name="p", model="m", tools=("act",))
SCRIPT = (
    ModelTurn("it is a long story", UsageDelta(5, 1, 1), "tool_calls", (ToolRequest("c1", "act", {}),)),
    ModelTurn("the end", UsageDelta(5, 1, 1), "end"),
)


def stock(shop: Shop, model: ScriptedModel) -> Shop:
    """Give the inside of another worker."""
    registry = Registry()
    registry.model("m", model)

    @registry.tool(idempotent=True)
    async def act() -> str:
        """Act."""
        return "done"

    return replace(shop, registry=registry)


def as_shown(events: list[dict[str, Any]]) -> str:
    """Give the text that a reader shows in the end: what a rewind took back is gone."""
    kept: list[dict[str, Any]] = []
    for event in events:
        if event["kind"] == "rewind":
            kept = [each for each in kept if each["index"] < event["to_index"]]
        kept.append(event)
    return "".join(event["text"] for event in kept if event["kind"] == "text_delta")


@pytest.mark.parametrize("shown", range(6))
async def test_a_turn_whose_text_was_cut_off_is_shown_whole_and_not_bought(shop: Shop, shown: int) -> None:
    """The journal and the log of a worker that died with `shown` of the turn's five words in the log."""
    await shop.enqueue(SPEC, run_id="whole")
    assert (await stock(shop, ScriptedModel(SCRIPT)).work("whole")).state == "completed"
    opened, turn, *_ = await shop.executor.execute(commands.journal(shop.keys, "whole"))
    words = [event for event in await shop.events("whole") if event["kind"] == "text_delta"][:5]
    assert (turn["k"], "".join(word["text"] for word in words)) == ("turn", SCRIPT[0].text)

    await shop.enqueue(SPEC)
    claim = await shop.claim()
    events = [word | {"run_id": "run"} for word in words[:shown]]
    await shop.executor.execute(commands.step(shop.keys, claim, seq=1, entries=[opened, turn], events=events))
    await shop.lose(claim)

    model = ScriptedModel(SCRIPT)
    assert (await stock(shop, model).work()).state == "completed"
    assert len(model.calls) == 1  # the second turn; the first was in the journal
    events = await shop.events()
    assert as_shown(events) == "it is a long storythe end"
    marks = [(event["kind"], event.get("to_index")) for event in events if event["kind"] in {"rewind", "resumed"}]
    assert marks == [("rewind", 0) if 0 < shown < 5 else ("resumed", None)]
    assert [event["kind"] for event in events].count("usage") == 2
