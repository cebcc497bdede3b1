"""A cancel reaches the run's worker as it is asked for, without waiting for a step or a heartbeat (DESIGN 5)."""

import asyncio

from worker.conftest import Shop

from turnfleet.store import commands
from turnfleet_kernel import PlanSpec
from turnfleet_kernel.testing import ScriptedModel
from turnfleet_worker.control import ControlListener


async def test_a_cancel_is_heard_and_other_fleets_cancels_are_not(shop: Shop) -> None:
    """The listener gives the run's id; it hears its own fleet only, also when the fleet's name looks like a pattern."""
    shop.registry.model("m", ScriptedModel(["x"]))
    await shop.enqueue(PlanSpec(name="p", model="m"))
    await shop.claim()
    heard: asyncio.Queue[str] = asyncio.Queue()
    listener = ControlListener(shop.executor, shop.keys, heard.put_nowait)
    listener.start()
    while not await shop.executor.client.pubsub_numpat():
        pass  # until its subscription has taken effect; each look is a round trip
    await shop.executor.client.publish(f"{{{shop.keys.fleet}-other}}:c:not-mine", b"x")
    await shop.executor.execute(commands.cancel(shop.keys, "run", reason="stop"))
    assert await asyncio.wait_for(heard.get(), 10) == "run"
    assert heard.empty()
    await listener.stop()
