"""Runs of one build in a process of another: read where they can be, else set aside (DESIGN 5, "Version")."""

import json
from typing import Any

import pytest
from worker.conftest import Shop
from worker.kit import HostProcess, until

from turnfleet.store import commands
from turnfleet_kernel import ModelTurn, PlanSpec, ToolRequest
from turnfleet_kernel.contracts.spec import plan_id
from turnfleet_kernel.errors import PlanError
from turnfleet_kernel.testing import ScriptedModel
from turnfleet_worker import Registry
from turnfleet_worker.errors import AlteredPlan, UnreadablePlan
from turnfleet_worker.plans import Plans

SPEC = PlanSpec(name="p", model="m")


def registry(model: Any = None) -> Registry:
    """Give a registry with one model."""
    made = Registry()
    made.model("m", model or ScriptedModel(["done"]))
    return made


def test_a_plan_of_a_newer_release_is_named_as_such() -> None:
    """Its unknown field is named; what it holds is not shown."""
    plans = Plans(registry())
    with pytest.raises(UnreadablePlan, match=r"\(novelty\)") as raised:
        plans.get("0" * 64, {"name": "p", "model": "m", "novelty": "a secret"})
    assert "a secret" not in str(raised.value)
    assert not plans.fits("0" * 64, {"name": "p", "model": "m", "novelty": 1})


def test_a_plan_that_is_not_what_its_id_names_is_not_run() -> None:
    """IPL-4: a plan id names its content."""
    plans = Plans(registry())
    with pytest.raises(AlteredPlan, match="altered"):
        plans.get(plan_id(SPEC), {"name": "p", "model": "m", "instructions": "Do worse."})
    assert plans.get(plan_id(SPEC), {"name": "p", "model": "m"}).identity.plan_id == plan_id(SPEC)


def test_whatever_keeps_a_plan_from_being_bound_is_a_plan_error() -> None:
    """A factory that raises on this machine (no key, no network) sets the run aside; it does not cost an attempt."""

    def factory() -> Any:
        raise KeyError("PROVIDER_KEY")

    with pytest.raises(PlanError, match="KeyError: 'PROVIDER_KEY'"):
        Plans(registry(factory)).get(plan_id(SPEC), {"name": "p", "model": "m"})
    unusable = SPEC.model_copy(update={"response": {"type": "nonsense"}})
    with pytest.raises(
        PlanError, match=r"cannot be bound here: ResponseError: the response schema .* is no JSON Schema"
    ):
        Plans(registry()).get(plan_id(unusable), unusable.model_dump(mode="json", exclude_defaults=True))


async def test_a_plan_that_cannot_be_read_is_parked_and_holds_up_nobody(shop: Shop, redis_url: str) -> None:
    """The sweep looks at it again and again, and goes on sweeping: another parked run is let go behind it."""
    shop.registry = registry()
    await shop.enqueue(SPEC, run_id="newer")
    await shop.executor.client.hset(
        shop.keys.record("newer"), "plan", json.dumps({"name": "p", "model": "m", "novelty": 1})
    )
    lacking = SPEC.model_copy(update={"tools": ("late",)})
    await shop.enqueue(lacking, run_id="waiting")
    async with HostProcess(shop, redis_url) as process:
        for run_id in ("newer", "waiting"):
            assert (await process.message(run_id))["state"] == "parked"

        @shop.registry.tool
        def late() -> str:
            """Be there at last."""
            return "here"

        await until(lambda: _is(shop, "waiting", "queued"))
        newer = await shop.executor.execute(commands.status(shop.keys, "newer"))
        assert newer.state == "parked"
        assert newer.parked is not None
        assert "novelty" in newer.parked
        assert newer.losses == 0


async def test_a_journal_of_a_newer_worker_waits_for_one(shop: Shop, redis_url: str) -> None:
    """It is parked, not failed, costs no attempt, and the worker that could not read it does not try again."""
    shop.registry = registry(ScriptedModel(["done"]))
    await shop.enqueue(SPEC)
    client, key = shop.executor.client, shop.keys.journal("run")
    await client.rpush(key, json.dumps({"k": "novelty", "at": 0}))

    async with HostProcess(shop, redis_url) as older:
        assert (await older.message("run"))["state"] == "parked"
        status = await shop.executor.execute(commands.status(shop.keys, "run"))
        assert (status.losses, status.error) == (0, None)
        assert "'novelty', which is unknown to this release" in str(status.parked)
        # Another run that waits is let go by its sweep; this one is not.
        await shop.enqueue(SPEC.model_copy(update={"tools": ("late",)}), run_id="waiting")
        assert (await older.message("waiting"))["state"] == "parked"

        @shop.registry.tool
        def late() -> str:
            """Be there at last."""
            return "here"

        await until(lambda: _is(shop, "waiting", "queued"))
        assert await _is(shop, "run", "parked")
    await client.delete(key)  # a newer worker reads it; this one has nothing to read any more
    async with HostProcess(shop, redis_url) as newer:
        await until(lambda: _is(shop, "run", "queued"))
        assert (await newer.message("run"))["state"] == "completed"


async def _is(shop: Shop, run_id: str, state: str) -> bool:
    return (await shop.executor.execute(commands.status(shop.keys, run_id))).state == state


@pytest.mark.parametrize("known", ["receipt", "doubt", "rejection"])
async def test_what_has_happened_fits_whatever_the_schema_is_now(shop: Shop, known: str) -> None:
    """HK-4: a call that was made, or decided, is not held to the schema of a newer build: it would be made again."""
    spec = PlanSpec(name="p", model="m", tools=("act", "ask"))
    calls = (ToolRequest("a", "act", {"what": "x"}), ToolRequest("q", "ask", {"question": "?"}))
    says = ModelTurn("", tool_requests=calls)
    older = registry(ScriptedModel([says, "done"]))

    @older.tool(approval=known == "rejection")
    def act(what: str) -> str:
        """Do it."""
        return what

    await shop.enqueue(spec)
    shop.registry = older
    await shop.work()
    if known == "doubt":
        # As if the worker had died with the call under way, and a person had been asked about it since.
        interrupt = {
            "id": "in_doubt:a",
            "kind": "in_doubt",
            "payload": {"tool": "act", "arguments": {"what": "x"}},
            "call_id": "a",
        }
        client, key = shop.executor.client, shop.keys.journal("run")
        entries = [json.loads(each) for each in await client.lrange(key, 0, -1)]
        kept = [each for each in entries if not (each["k"] == "receipt" and each["outcome"]["call_id"] == "a")]
        kept[-1]["interrupts"].insert(0, interrupt)
        kept.append({"k": "decision", "interrupt": "in_doubt:a", "decision": {"kind": "approve", "value": "it was x"}})
        await client.delete(key)
        await client.rpush(key, *(json.dumps(each) for each in kept))
    newer = registry(ScriptedModel([says, "done"]))

    @newer.tool(name="act", approval=known == "rejection")
    def act_otherwise(what: str, how: str) -> str:
        """Do it in some way."""
        raise AssertionError("it was done before")

    shop.registry = newer
    if known == "rejection":
        await shop.decide(act={"kind": "reject", "reason": "no"})
        await shop.work()  # now the question is asked
    await shop.decide(ask={"kind": "answer", "value": "yes"})
    assert (await shop.work()).state == "completed"
    seen = (await shop.executor.execute(commands.outcome(shop.keys, "run"))).outcome
    assert seen is not None
    first = seen["tool_outcomes"][0]
    meant = {
        "receipt": ("x", None),
        "doubt": ("it was x", None),
        "rejection": (None, "rejected by a person: no"),
    }
    assert (first["value"], first["error"]) == meant[known]
