"""A worker with keys acts on what a person with a key decided; the rest is asked about again (design/signing.md)."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from security.kit import KEYS, PLAN, Site
from worker.kit import until

from turnfleet import Answer, Approve, AsyncFleet, Edit, PlanSpec, Reject
from turnfleet.store import commands
from turnfleet.store.records import NewDecision
from turnfleet_kernel.testing import ScriptedModel, call
from turnfleet_worker.host import WorkerHost

FINANCE = {"by": "ann", "roles": ("finance",)}


async def paused(site: Site, fleet: AsyncFleet, host: WorkerHost, plan: PlanSpec = PLAN) -> str:
    """Bring a run to its pause; give the interrupt's id."""
    run = await fleet.enqueue(plan, "please", run_id="r")
    (result,) = await site.deliver(host)
    assert isinstance(result, dict)
    assert result["state"] == "paused"
    (waiting,) = await run.interrupts()
    return waiting.id


async def decide_unsigned(site: Site, name: str, **who: Any) -> None:
    """Decide as somebody does who can run the store's scripts and has no key."""
    decided = [NewDecision(name, {"kind": "approve", "value": None})]
    await site.executor.execute(
        commands.resume(site.keys, "r", decisions=decided, **({"by": "ann", "roles": ("finance",)} | who))
    )


async def decide(site: Site, name: str, decision: Any = None, **who: Any) -> None:
    """Decide as a client with keys does."""
    async with site.fleet() as fleet:
        await fleet.run("r").resume({name: decision or Approve()}, **(FINANCE | who))


async def no_signature(site: Site, name: str) -> None:
    """Decide without a key."""
    await decide_unsigned(site, name)


async def another_decision(site: Site, name: str) -> None:
    """Turn a signed rejection into an approval."""
    await decide(site, name, Reject("no"))
    await site.rewrite("r", "decision", decision={"kind": "approve", "value": None})


async def other_arguments(site: Site, name: str) -> None:
    """Turn a signed edit into another."""
    await decide(site, name, Edit({"amount": 1}))
    await site.rewrite("r", "decision", decision={"kind": "edit", "arguments": {"amount": 1_000_000}})


async def another_decider(site: Site, name: str) -> None:
    """Say that somebody else did it."""
    await decide(site, name)
    await site.rewrite("r", "decision", by="bob")


async def as_if_nobody_had_decided(site: Site, name: str) -> None:
    """Say that it was the decision on expiry."""
    await decide_unsigned(site, name, by="expiry")


async def something_else_shown(site: Site, name: str) -> None:
    """Show a person a small refund, and have that approval count for the large one that waits."""
    key = site.keys.interrupts("r")
    body = json.loads(await site.client.hget(key, f"b:{name}"))
    body["payload"]["arguments"] = {"amount": 1}
    await site.client.hset(key, f"b:{name}", json.dumps(body))
    await decide(site, name)


async def without_the_role(site: Site, name: str) -> None:
    """Let somebody decide whom the run never named, by taking the roles out of the store."""
    key = site.keys.interrupts("r")
    head = json.loads(await site.client.hget(key, f"h:{name}"))
    await site.client.hset(key, f"h:{name}", json.dumps(head | {"roles": []}))
    await decide(site, name, by="mallory", roles=())


async def another_pause(site: Site, name: str) -> None:
    """Change what the run asked for, after it was asked."""
    await site.rewrite(
        "r",
        "paused",
        interrupts=[{"id": name, "kind": "approval", "call_id": "c1", "payload": {"tool": "hasty", "arguments": {}}}],
    )
    await decide(site, name)


async def _append(site: Site, *entries: dict[str, Any]) -> None:
    await site.client.rpush(site.keys.journal("r"), *map(json.dumps, entries))


async def a_beginning_after_it(site: Site, name: str) -> None:
    """Have a forged decision look as if it belonged to what is over."""
    await decide_unsigned(site, name)
    await _append(site, {"k": "opened", "transcript": [], "at": 0})


async def the_same_decision_for_a_child(site: Site, name: str) -> None:
    """Hand a decision to a delegated run past the run that was asked."""
    await decide(site, name)
    await site.rewrite("r", "decision", run="r")


async def nonsense(site: Site, name: str) -> None:
    """Write what is no decision at all."""
    await decide(site, name)
    await site.rewrite("r", "decision", proof=[1], decision=7)


FORGERIES: list[Callable[[Site, str], Awaitable[None]]] = [
    no_signature,
    another_decision,
    other_arguments,
    another_decider,
    as_if_nobody_had_decided,
    something_else_shown,
    without_the_role,
    another_pause,
    a_beginning_after_it,
    the_same_decision_for_a_child,
    nonsense,
]


@pytest.mark.parametrize("forge", FORGERIES, ids=lambda forge: forge.__name__)
async def test_a_decision_that_was_forged_is_asked_for_again(
    site: Site, forge: Callable[[Site, str], Awaitable[None]]
) -> None:
    """It moves nothing: no tool is called, the run has not failed, the interrupt is open again, a good one counts."""
    async with site.fleet() as fleet, site.host() as host:
        name = await paused(site, fleet, host)
        await forge(site, name)
        result = await site.offer(host, "r")
        assert isinstance(result, dict), result
        assert result["state"] == "paused"
        assert site.made == []
        assert host.counts["decision refused"] >= 1
        await site.messages()
        status = await fleet.run("r").status()
        assert [(each.id, each.arguments, each.roles) for each in status.interrupts] == [
            (name, {"amount": 80}, ("finance",))
        ]
        await decide(site, name)
        (result,) = await site.deliver(host)
        assert isinstance(result, dict), result
        assert result["state"] == "completed"
        assert site.made == ["r:80"]
        events = [event async for event in fleet.run("r").events()]
        assert [event.index for event in events] == list(range(len(events)))


async def test_an_approval_does_not_count_for_a_call_that_was_put_in_its_place(site: Site) -> None:
    """The turn is bound to the pause: another tool under the same call id is asked about as what it is."""
    async with site.fleet() as fleet, site.host() as host:
        name = await paused(site, fleet, host)
        await decide(site, name)
        entries = [json.loads(entry) for entry in await site.client.lrange(site.keys.journal("r"), 0, -1)]
        (turn,) = [entry for entry in entries if entry["k"] == "turn"]
        await site.rewrite("r", "turn", tool_requests=[turn["tool_requests"][0] | {"name": "hasty"}])
        result = await site.offer(host, "r")
        assert isinstance(result, dict), result
        assert (result["state"], site.made) == ("paused", [])
        assert [each.tool for each in await fleet.run("r").interrupts()] == ["hasty"]
        assert host.counts["decision refused"] == 1


async def test_what_is_decided_when_nobody_decides_needs_no_key(site: Site) -> None:
    """The store's script takes the default; it counts because the pause that a worker signed names it."""
    async with site.fleet() as fleet, site.host() as host:
        plan = PlanSpec(name="desk", model="hasty", tools=("refund", "hasty"))
        await fleet.enqueue(plan, "please", run_id="r")
        await site.deliver(host)
        offers = await _sweep_until_offered(site, host)
        (result,) = await site.deliver(host, *offers)
        assert isinstance(result, dict), result
        assert result["state"] == "completed"
        outcome = await fleet.run("r").result()
        assert [each.error for each in outcome.tool_outcomes] == ["rejected by a person: nobody came"]
        assert host.counts["decision refused"] == 0


async def _sweep_until_offered(site: Site, host: WorkerHost) -> list[dict[str, Any]]:
    offers: list[dict[str, Any]] = []

    async def offered() -> bool:
        await host.make_rounds()
        offers.extend(await site.messages())
        return bool(offers)

    await until(offered)
    return offers


async def test_another_default_than_the_one_that_was_signed_does_not_count(site: Site) -> None:
    """Whoever writes into Redis cannot have a refund approved by waiting."""
    # Nobody sweeps by himself: the default is not taken before it was exchanged.
    async with site.fleet() as fleet, site.host(sweep_seconds=29) as host:
        plan = PlanSpec(name="desk", model="hasty", tools=("refund", "hasty"))
        await fleet.enqueue(plan, "please", run_id="r")
        await site.deliver(host)
        (waiting,) = await fleet.run("r").interrupts()
        await site.client.hset(site.keys.interrupts("r"), f"o:{waiting.id}", '{"kind":"approve","value":null}')
        offers = await _sweep_until_offered(site, host)
        (result,) = await site.deliver(host, *offers)
        assert isinstance(result, dict), result
        assert result["state"] == "paused"
        assert host.counts["decision refused"] == 1
        assert site.made == []


async def test_a_delegated_runs_decision_is_checked_as_well(site: Site) -> None:
    """Its pause stands in its root's journal, its decision is taken on the root; both are signed."""
    site.registry.model("boss", ScriptedModel([call("desk", "d1", prompt="please"), "all done"]))
    site.registry.delegate("desk", PLAN)
    plan = PlanSpec(name="boss", model="boss", delegates=("desk",))
    async with site.fleet() as fleet, site.host() as host:
        name = await paused(site, fleet, host, plan)
        await decide_unsigned(site, name)
        result = await site.offer(host, "r")
        assert isinstance(result, dict), result
        assert (result["state"], site.made) == ("paused", [])
        await site.messages()
        await decide(site, name)
        (result,) = await site.deliver(host)
        assert isinstance(result, dict), result
        assert result["state"] == "completed"
        assert len(site.made) == 1


async def test_an_answer_is_signed_like_any_decision(site: Site) -> None:
    """A question has no arguments: what is bound is the question."""
    site.registry.model("asker", ScriptedModel([call("ask", "q1", question="which order?"), "thanks"]))
    plan = PlanSpec(name="asker", model="asker", tools=("ask",))
    async with site.fleet() as fleet, site.host() as host:
        name = await paused(site, fleet, host, plan)
        await decide(site, name, Answer("1001"))
        (result,) = await site.deliver(host)
        assert isinstance(result, dict), result
        outcome = await fleet.run("r").result()
        assert [each.value for each in outcome.tool_outcomes] == ["1001"]


async def test_a_run_that_paused_before_its_worker_had_keys_is_only_asked_again(site: Site) -> None:
    """Its pause is not signed: nothing is lost but a decision."""
    async with site.fleet() as fleet:
        async with site.host(None) as host:
            name = await paused(site, fleet, host)
        await decide(site, name)
        async with site.host(KEYS) as host:
            (result,) = await site.deliver(host)
            assert isinstance(result, dict), result
            assert (result["state"], site.made) == ("paused", [])
            await decide(site, name)
            (result,) = await site.deliver(host)
            assert isinstance(result, dict), result
            assert (result["state"], site.made) == ("completed", ["r:80"])
