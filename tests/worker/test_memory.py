"""A run's memory goes with its end: nothing of it waits for the garbage collector, however large its transcript."""

import gc
from collections.abc import Iterator

import pytest
from worker.conftest import Shop

from turnfleet_kernel import InvocationPlan, ModelTurn, PlanSpec, RequestContext, ToolRequest
from turnfleet_kernel.testing import ScriptedModel
from turnfleet_kernel.testing.scripted import Step
from turnfleet_worker.durable import RunJournal
from turnfleet_worker.invocation import Invocation
from turnfleet_worker.writer import RunWriter

OF_A_RUN = (Invocation, RunWriter, RunJournal, RequestContext, InvocationPlan)
SPEC = PlanSpec(name="p", model="m", tools=("look", "allow"), delegates=("child",))


@pytest.fixture
def garbage() -> Iterator[list[object]]:
    """Collect nothing during the test; what is found in the end is kept here."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    yield gc.garbage
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()


def calling(*names: str) -> ModelTurn:
    """Give a turn that calls these tools."""
    requests = (ToolRequest(name, name, {"prompt": "go"} if name == "child" else {}) for name in names)
    return ModelTurn("", tool_requests=tuple(requests))


@pytest.mark.parametrize("ending", ["completed", "failed", "paused"])
async def test_nothing_of_a_run_is_garbage_when_its_claim_is_over(
    shop: Shop, garbage: list[object], ending: str
) -> None:
    """Whether it ended well, badly or in a pause, with all that it delegated: what it is made of leads in no circle."""
    ends: dict[str, Step] = {"completed": "done", "failed": ValueError("no"), "paused": calling("allow")}
    shop.registry.model("m", ScriptedModel([calling("look", "child"), ends[ending]]))
    shop.registry.model("c", ScriptedModel([calling("look"), "child's"]))
    shop.registry.delegate("child", PlanSpec(name="c", model="c", tools=("look",)))

    @shop.registry.tool
    async def look() -> str:
        """Look."""
        return "seen"

    @shop.registry.tool(approval=True)
    async def allow() -> None:
        """Wait for a person."""

    await shop.enqueue(SPEC)
    left = await shop.invocation(await shop.claim()).run()
    state = left.state
    del left
    gc.collect()
    assert (state, [each for each in garbage if isinstance(each, OF_A_RUN)]) == (ending, [])
