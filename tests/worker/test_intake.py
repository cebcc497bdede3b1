"""What a message says of its run: names where the record says the rest, all of it where there is no record yet."""

from collections import Counter

import pytest
from celery.exceptions import Ignore
from worker.conftest import Shop
from worker.kit import HostProcess, a_delivery

from turnfleet.errors import InvalidEnvelope
from turnfleet.store import commands
from turnfleet.wire.envelope import Envelope
from turnfleet.wire.limits import SizeLimits
from turnfleet.wire.signing import SigningKeys
from turnfleet_kernel import PlanSpec
from turnfleet_kernel.testing import ScriptedModel
from turnfleet_worker.intake import Intake
from turnfleet_worker.trust import Trust

SPEC = PlanSpec(name="p", model="m")


async def recorded(shop: Shop) -> Envelope:
    """Record a run, and give what is said of it."""
    shop.registry.model("m", ScriptedModel(["done"]))
    await shop.enqueue(SPEC)
    status = await shop.executor.execute(commands.status(shop.keys, "run"))
    return Envelope(fleet=shop.keys.fleet, run_id="run", recorded=True, plan_id=status.plan_id, digest=status.digest)


async def test_what_the_message_of_a_recorded_run_brings_is_not_read(shop: Shop, redis_url: str) -> None:
    """The record's plan and request are run, whatever the message says in their place (DESIGN 1)."""
    message = (await recorded(shop)).to_json() | {"plan": {"name": 7}, "request": "nonsense"}
    async with HostProcess(shop, redis_url) as process:
        assert (await process.host.handle(message, a_delivery("run")))["state"] == "completed"


async def test_a_message_that_names_another_digest_than_the_record_is_refused(shop: Shop, redis_url: str) -> None:
    """It is of another run with this id."""
    message = (await recorded(shop)).to_json() | {"digest": "0" * 64}
    async with HostProcess(shop, redis_url) as process:
        with pytest.raises(Ignore, match="digest"):
            await process.host.handle(message, a_delivery("run"))
    assert (await shop.executor.execute(commands.status(shop.keys, "run"))).state == "queued"


async def test_a_signed_message_is_read_as_it_was_signed(shop: Shop) -> None:
    """With keys all of it is: what was signed is the whole."""
    message = (await recorded(shop)).to_json() | {"plan": {"name": 7}, "request": {"prompt": "hi"}}
    trust = Trust(SigningKeys({"k": b"k" * 32}), shop.keys.fleet)
    intake = Intake(shop.keys.fleet, trust, SizeLimits(), Counter())
    with pytest.raises(InvalidEnvelope):
        intake.read(message)
