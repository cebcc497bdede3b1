"""What is too large is refused by name: before it is written, or where a message that is not ours arrives."""

from typing import Any

import pytest
from security.kit import PLAN, Site

from turnfleet import Answer, AsyncFleet, PayloadTooLarge, PlanSpec, SizeLimits, UnknownRun
from turnfleet.wire import Envelope, sign_envelope
from turnfleet_kernel.contracts.values import TurnRequest
from turnfleet_kernel.testing import ScriptedModel, call

KIB = 1024
TOO_LARGE: dict[str, dict[str, Any]] = {
    "the prompt": {"request": {"prompt": "\u00e9" * (512 * KIB + 1)}},
    "the attachments": {"request": {"prompt": "x", "attachments": ["x" * 4096 * KIB]}},
    "the message": {"request": {"prompt": "x", "history": ["x" * 8192 * KIB]}},
    "the run's metadata": {"options": {"metadata": {"x": "x" * 64 * KIB}}},
    "the request's metadata": {"request": {"prompt": "x", "metadata": {"x": "x" * 64 * KIB}}},
}


@pytest.mark.parametrize("part", TOO_LARGE)
async def test_a_foreign_message_that_is_too_large_is_refused_and_counted(site: Site, part: str) -> None:
    """It is dropped before anything is written; the error names part, run, size and limit, and shows no content."""
    parts = {"fleet": site.name, "run_id": "r", "plan": PLAN, "request": {"prompt": "x"}} | TOO_LARGE[part]
    message = sign_envelope(site.signing, Envelope.model_validate(parts)).to_json()
    async with site.host() as host, site.fleet() as fleet:
        (refused,) = await site.deliver(host, message)
        assert isinstance(refused, PayloadTooLarge)
        assert refused.part == f"{part} of run 'r'"
        assert len(str(refused)) < 200
        assert host.counts["too large"] == 1
        with pytest.raises(UnknownRun):
            await fleet.run("r").status()


async def test_what_a_producer_recorded_is_taken_as_its_own_limits_say(site: Site) -> None:
    """A service that raised its limits has said so: its workers do not refuse what is in the record."""
    async with (
        site.host() as host,
        AsyncFleet(site.url, name=site.name, signing=site.signing, limits=SizeLimits(prompt=2048 * KIB)) as fleet,
    ):
        await fleet.enqueue(PLAN, "x" * 1500 * KIB, run_id="r")
        (result,) = await site.deliver(host)
        assert isinstance(result, dict), result
        assert result["state"] == "paused"


async def test_a_producer_is_told_before_anything_is_written(site: Site) -> None:
    """Labels of the run and of the request have a limit of their own: they are kept in every listing."""
    async with site.fleet() as fleet:
        labels = {"x": "x" * 64 * KIB}
        with pytest.raises(PayloadTooLarge, match="the run's metadata"):
            await fleet.enqueue(PLAN, "x", run_id="r", metadata=labels)
        with pytest.raises(PayloadTooLarge, match="the request's metadata"):
            await fleet.enqueue(PLAN, TurnRequest("x", metadata=labels), run_id="r")
        with pytest.raises(UnknownRun):
            await fleet.run("r").status()


async def test_a_decision_that_is_too_large_is_not_taken(site: Site) -> None:
    """The interrupt stays open for one that fits."""
    site.registry.model("asker", ScriptedModel([call("ask", "q1", question="which?"), "thanks"]))
    async with site.fleet() as fleet, site.host() as host:
        run = await fleet.enqueue(PlanSpec(name="asker", model="asker", tools=("ask",)), "x", run_id="r")
        await site.deliver(host)
        (waiting,) = await run.interrupts()
        with pytest.raises(PayloadTooLarge, match="decision on 'question:q1'"):
            await run.resume({waiting.id: Answer("x" * KIB * KIB)}, by="ann")
        assert [each.id for each in await run.interrupts()] == [waiting.id]
        assert await run.resume({waiting.id: Answer("this")}, by="ann") == "queued"
