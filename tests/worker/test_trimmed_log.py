"""The log of events is bounded: what has left it is neither shown again nor missed when a run goes on (EVT-12)."""

from dataclasses import replace

import pytest
from worker.conftest import Shop

from turnfleet.store import commands
from turnfleet_kernel import ModelTurn, PlanSpec, ToolRequest, UsageDelta
from turnfleet_kernel.testing import ScriptedModel
from turnfleet_worker import Registry, ToolContext

PLAIN = PlanSpec(name="p", model="m", tools=("trim", "ask"))
PARENT = PlanSpec(name="parent", model="parent", delegates=("helper",))
CALLS = (ToolRequest("t", "trim", {}), ToolRequest("q", "ask", {"question": "well?"}))


def with_trim(shop: Shop) -> Shop:
    """Give a worker's inside with a tool that lets the log's beginning go, as a very long round would."""
    registry = Registry()
    registry.model("m", ScriptedModel([ModelTurn("so: ", UsageDelta(1, 1, 1), tool_requests=CALLS), "done"]))
    delegation = ToolRequest("h", "helper", {"prompt": "go"})
    registry.model(
        "parent", ScriptedModel([ModelTurn("it: ", UsageDelta(1, 1, 1), tool_requests=(delegation,)), "end"])
    )
    registry.delegate("helper", PLAIN)

    @registry.tool(idempotent=True)
    async def trim(context: ToolContext) -> str:
        """Drop all events so far."""
        await shop.executor.client.xtrim(shop.keys.events("run"), maxlen=0, approximate=False)
        return "trimmed"

    return replace(shop, registry=registry)


@pytest.mark.parametrize("spec", [PLAIN, PARENT], ids=["its own round", "the round of what it delegated"])
async def test_a_round_whose_beginning_left_the_log_pauses_and_goes_on(shop: Shop, spec: PlanSpec) -> None:
    """The pause is verified all the same, and the resumed round tells of its turn and calls no second time."""
    await shop.enqueue(spec)
    assert (await with_trim(shop).work()).state == "paused"
    before = await next_index(shop)
    await shop.decide(only={"kind": "answer", "value": "well"})
    assert (await with_trim(shop).work()).state == "completed"
    told = await since(shop, before)
    assert [kind for kind in told if kind in {"tool_call", "rewind"}] == []
    assert told.count("usage") == (1 if spec is PLAIN else 2)
    assert told.count("tool_result") == (1 if spec is PLAIN else 2)


async def next_index(shop: Shop) -> int:
    """Give the index of the run's next event."""
    return int(await shop.executor.client.hget(shop.keys.record("run"), "next") or 0)


async def since(shop: Shop, index: int) -> list[str]:
    """Give the kinds of events from an index on, a delegated run's in the place of the `child` event around them."""
    page = await shop.executor.execute(commands.read_events(shop.keys, "run", after=index - 1, count=1_000))
    return [event["event"]["kind"] if event["kind"] == "child" else event["kind"] for event in page.events]
