"""A run that failed for good is tried again by hand: it goes on from its journal (DESIGN 1 and 2)."""

from collections import Counter
from dataclasses import replace

from worker.conftest import Shop

from turnfleet.store import commands
from turnfleet.store.records import SweepPolicy
from turnfleet_kernel import ModelTurn, PlanSpec, ToolRequest
from turnfleet_kernel.testing import ScriptedModel
from turnfleet_worker import Registry, ToolContext

SPEC = PlanSpec(name="p", model="m", tools=("act",))
FIRST = ModelTurn("first ", tool_requests=(ToolRequest("c1", "act", {}),))


class Desk:
    """A worker's inside whose tool counts its calls, with a model that says what the test wants."""

    def __init__(self, shop: Shop) -> None:
        self.made: Counter[str] = Counter()
        self._shop = shop

    def with_model(self, *script: ModelTurn | str | BaseException) -> tuple[Shop, ScriptedModel]:
        """Give the inside of a worker, and its model."""
        registry, model = Registry(), ScriptedModel(script)
        registry.model("m", model)

        @registry.tool
        async def act(context: ToolContext) -> str:
            """Count."""
            self.made[context.call_id] += 1
            return "acted"

        return replace(self._shop, registry=registry), model


async def test_a_retry_goes_on_behind_what_was_done(shop: Shop) -> None:
    """The provider failed in the second round: it alone is asked again, and the stream goes on after the error."""
    desk = Desk(shop)
    broken, _ = desk.with_model(FIRST, RuntimeError("the provider is down"))
    await shop.enqueue(SPEC)
    assert (await broken.work()).state == "failed"
    assert await shop.executor.client.ttl(shop.keys.record("run")) > 0
    await shop.executor.execute(commands.retry(shop.keys, "run"))
    assert await shop.executor.client.ttl(shop.keys.record("run")) == -1
    mended, model = desk.with_model(FIRST, "last")
    assert (await mended.work()).state == "completed"
    assert (desk.made, len(model.calls)) == ({"c1": 1}, 1)
    events = await shop.events()
    told = [event["kind"] for event in events]
    assert (told.count("error"), told.count("resumed"), told[-1]) == (1, 1, "done")
    assert "".join(event["text"] for event in events if event["kind"] == "text_delta") == "first last"


async def test_a_dead_letter_can_be_looked_at_and_tried_again(shop: Shop) -> None:
    """Five workers were lost in a row, the last without a word: the error says so; a retry starts the count anew."""
    desk = Desk(shop)
    late, _ = desk.with_model(FIRST, "last")
    await shop.enqueue(SPEC)
    shard = shop.keys.shard("run")
    for _ in range(4):
        await shop.lose(await shop.claim())
    claim = await shop.claim()
    await shop.executor.client.hset(shop.keys.record("run"), "lease", "1")
    await shop.executor.client.zadd(f"{shop.keys.prefix(shard)}due", {"run": 1})
    swept = await shop.executor.execute(commands.sweep(shop.keys, shard, SweepPolicy()))
    assert swept.failed == 1
    status = await shop.executor.execute(commands.status(shop.keys, "run"))
    assert (status.state, status.losses) == ("failed", 5)
    assert status.error is not None
    assert status.error.startswith("WorkerLost: 5 workers in a row were lost")
    assert (await late.invocation(claim).run()).state == "lost"
    assert desk.made == {}
    await shop.executor.execute(commands.retry(shop.keys, "run"))
    status = await shop.executor.execute(commands.status(shop.keys, "run"))
    assert (status.state, status.losses) == ("queued", 0)
    worker, _ = desk.with_model(FIRST, "last")
    assert (await worker.work()).state == "completed"
    assert desk.made == {"c1": 1}
