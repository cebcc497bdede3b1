"""A preflight with keys believes what a worker with them believes (design/signing.md)."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from security.kit import KEYS, NEW_KEYS, OLD_KEYS, PLAN, Site

from turnfleet import Approve, SigningKeys
from turnfleet_worker.preflight.check import preflight
from turnfleet_worker.preflight.survey import Wanted
from turnfleet_worker.preflight.verdicts import Verdict


@pytest.fixture
async def site(redis_url: str, fleet_name: str) -> AsyncIterator[Site]:
    """Give a fleet whose client and worker have keys, with a run that finance has approved."""
    site = Site(redis_url, fleet_name)
    async with site.fleet(OLD_KEYS) as fleet, site.host() as host:
        run = await fleet.enqueue(PLAN, "please", run_id="r")
        await site.deliver(host)
        (waiting,) = await run.interrupts()
        await run.resume({waiting.id: Approve()}, by="ann", roles=("finance",))
        await site.messages()
    yield site
    await site.close()


async def said(site: Site, signing: SigningKeys | None) -> Any:
    """Give the verdict's word, its findings, and the next step."""
    report = await preflight(site.registry, site.executor, site.keys, Wanted(), signing=signing)
    (word,) = report.words
    found: list[Verdict] = report.listed
    kinds = [(each.kind, each.about) for verdict in found for each in verdict.findings]
    return word, kinds, " ".join(step for verdict in found for step in verdict.next)


async def test_what_a_key_signed_goes_on(site: Site) -> None:
    """With the key, and in a fleet that asks for none."""
    assert (await said(site, KEYS))[:2] == ("goes on", [])
    assert (await said(site, None))[:2] == ("goes on", [])


async def test_a_key_that_was_taken_away_breaks_its_runs(site: Site) -> None:
    """Before the rollout, not after it; and so it is."""
    assert (await said(site, NEW_KEYS))[:2] == ("breaks", [("signature", "unknown key")])
    async with site.host(NEW_KEYS) as host:
        site.signing = NEW_KEYS
        result = await site.offer(host, "r")
    assert isinstance(result, Exception)
    assert "signed with the key 'old'" in str(result)


async def test_a_decision_that_nobody_signed_is_asked_for_again(site: Site) -> None:
    """The run goes on without it, and waits once more; and so it does."""
    key = site.keys.journal("r")
    decision = json.loads(await site.client.lindex(key, -1))
    await site.client.lset(key, -1, json.dumps({**decision, "proof": None}))
    assert await said(site, KEYS) == ("changed", [("signature", "approval:c1")], "calls refund")
    async with site.host() as host:
        result = await site.offer(host, "r")
    assert isinstance(result, dict)
    assert (result["state"], site.made) == ("paused", [])
