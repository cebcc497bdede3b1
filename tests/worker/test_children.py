"""A delegated run is as durable as the run that delegates: it goes on from where it stood (DESIGN 2, DEL-6)."""

import asyncio
from collections import Counter

import pytest
from worker.conftest import Shop
from worker.kit import cut_inside_a_call, dying_worker, outcome
from worker.office import (
    PARENT,
    TWO_ROUNDS,
    Office,
    decide,
    helped,
    journal,
    of_children,
    said,
    that_count,
    turn,
)

from turnfleet.store import commands
from turnfleet_kernel import PlanSpec


@pytest.mark.parametrize("writes", range(18))
async def test_a_parent_cut_after_any_write_repeats_nothing_of_its_child(
    shop: Shop, redis_url: str, writes: int
) -> None:
    """The child's turns are not bought again and its tools not called again; its stream is whole, with one end."""
    office = Office(parent=(helped("h"), turn("the end")), helper=TWO_ROUNDS)
    await shop.enqueue(PARENT, run_id="whole")
    assert (await office.staff(shop).work("whole")).state == "completed"
    expected = await outcome(shop, "whole")
    office.bought.clear()
    office.made.clear()

    await shop.enqueue(PARENT)
    claim = await shop.claim()
    async with dying_worker(office.staff(shop), redis_url, claim, writes) as (dying, task):
        killed = await dying.killed(task)
        if killed:
            before = [(entry.get("run"), entry["k"]) for entry in await journal(shop)]
            bought, made = Counter(office.bought), Counter(office.made)
            await shop.lose(claim)
            assert (await office.staff(shop).work()).state == "completed"
            assert_only_the_rest_was_done(office, bought, made, before)
    assert (await task).state == ("lost" if killed else "completed")
    assert expected == await outcome(shop, "run")
    assert {"run.h/a1", "run.h/a2"} == set(office.made)
    events = await shop.events()
    assert said(events) == "delegating the end"
    child = of_children(events)["run.h"]
    assert said(child) == "one two helped"
    kept = that_count(child)
    assert [event["kind"] for event in kept if event["kind"] in {"tool_call", "tool_result", "usage", "done"}] == [
        *("usage", "tool_call", "tool_call", "tool_result", "tool_result"),
        *("usage", "tool_call", "tool_result", "usage", "done"),
    ]


def assert_only_the_rest_was_done(
    office: Office, bought: Counter[tuple[str, int]], made: Counter[str], before: list[tuple[str | None, str]]
) -> None:
    """Assert that nothing in the journal was bought again, and of its calls none but those without receipt."""
    parents, childs = before.count((None, "turn")), before.count(("run.h", "turn"))
    known = {("parent", place) for place in range(parents)} | {("helper", place) for place in range(childs)}
    assert {key for key in known if office.bought[key] != bought[key]} == set()
    receipts = [entry for entry in before if entry == ("run.h", "receipt")]
    repeated = [key for key in made if office.made[key] > made[key]]
    assert len(repeated) <= before.count(("run.h", "start")) - len(receipts)


async def test_a_childs_call_without_receipt_is_in_doubt_like_any_other(shop: Shop, redis_url: str) -> None:
    """A person is asked about the child's call, by an id that names the child; the delegation itself is in no doubt."""
    office = Office(parent=(helped("h"), turn("the end")), helper=TWO_ROUNDS, idempotent=False)
    await shop.enqueue(PARENT)
    await cut_inside_a_call(office.staff(shop), redis_url, office)
    assert (await office.staff(shop).work()).state == "paused"
    status = await shop.executor.execute(commands.status(shop.keys, "run"))
    assert [(each.id, each.payload["tool"]) for each in status.interrupts] == [("run.h:in_doubt:a1", "act")]
    await decide(shop, {"kind": "approve", "value": "it did"})
    assert (await office.staff(shop).work()).state == "completed"
    assert office.made == {"run.h/a1": 1, "run.h/a2": 1}
    assert (office.bought["parent", 0], office.bought["helper", 0]) == (1, 1)


async def test_a_child_that_waits_for_people_goes_on_in_another_worker(shop: Shop) -> None:
    """Approved twice, asked once: each time another worker takes the child up behind what it had done (DEL-6)."""
    asking = turn("ask ", q=("ask", {"question": "really?"}))
    script = (TWO_ROUNDS[0], asking, TWO_ROUNDS[1], TWO_ROUNDS[2])
    office = Office(parent=(helped("h"), turn("the end")), helper=script, approval=True)
    await shop.enqueue(PARENT)
    assert (await office.staff(shop).work()).state == "paused"
    assert await decide(shop, {"kind": "approve"}) == ("run.h:approval:a1",)
    assert (await office.staff(shop).work()).state == "paused"
    (question,) = await decide(shop, {"kind": "answer", "value": "yes"})
    assert question.startswith("run.h:")
    assert (await office.staff(shop).work()).state == "paused"
    assert await decide(shop, {"kind": "approve"}) == ("run.h:approval:a2",)
    assert (await office.staff(shop).work()).state == "completed"
    assert office.made == {"run.h/a1": 1, "run.h/a2": 1}
    assert set(office.bought.values()) == {1}
    assert said(of_children(await shop.events())["run.h"]) == "one ask two helped"


@pytest.mark.parametrize("writes", range(8))
async def test_a_decision_for_a_child_survives_a_crash_at_any_write_after_it(
    shop: Shop, redis_url: str, writes: int
) -> None:
    """The worker that goes on after an approval dies: the decision is still there, and is not asked for again."""
    office = Office(parent=(helped("h"), turn("the end")), helper=TWO_ROUNDS[1:], approval=True)
    await shop.enqueue(PARENT)
    assert (await office.staff(shop).work()).state == "paused"
    await decide(shop, {"kind": "approve"})
    claim = await shop.claim()
    async with dying_worker(office.staff(shop), redis_url, claim, writes) as (dying, task):
        if await dying.killed(task):
            await shop.lose(claim)
            assert (await office.staff(shop).work()).state == "completed"
    assert (await task).state in {"lost", "completed"}
    assert set(office.made) == {"run.h/a2"}
    assert said(of_children(await shop.events())["run.h"]) == "two helped"
    assert (await shop.events())[-1]["kind"] == "done"


async def test_two_children_of_one_round_wait_and_go_on_side_by_side(shop: Shop) -> None:
    """Siblings have separate journals; both pause, both are answered, and neither repeats anything (DEL-5)."""
    office = Office(parent=(helped("h", "i"), turn("the end")), helper=TWO_ROUNDS, approval=True)
    await shop.enqueue(PARENT)
    assert (await office.staff(shop).work()).state == "paused"
    assert await decide(shop, {"kind": "approve"}) == ("run.h:approval:a1", "run.i:approval:a1")
    assert (await office.staff(shop).work()).state == "paused"
    assert await decide(shop, {"kind": "approve"}) == ("run.h:approval:a2", "run.i:approval:a2")
    assert (await office.staff(shop).work()).state == "completed"
    assert office.made == {f"run.{child}/{call_id}": 1 for child in "hi" for call_id in ("a1", "a2")}
    assert {name: said(had) for name, had in of_children(await shop.events()).items()} == {
        "run.h": "one two helped",
        "run.i": "one two helped",
    }


async def test_a_sibling_that_ended_is_not_run_again(shop: Shop) -> None:
    """One child waits for a person, the other has its receipt: only the first goes on."""
    waits = turn("one ", a=("act", {"what": "x"}))
    office = Office(
        parent=(turn("", h=("helper", {"prompt": "h"}), q=("quick", {"prompt": "q"})), turn("the end")),
        helper=(waits, turn("helped")),
        models={"quick": (turn("quickly"),)},
        delegates={"quick": PlanSpec(name="quick", model="quick")},
        approval=True,
    )
    await shop.enqueue(PARENT.model_copy(update={"delegates": ("helper", "quick")}))
    assert (await office.staff(shop).work()).state == "paused"
    await decide(shop, {"kind": "approve"})
    assert (await office.staff(shop).work()).state == "completed"
    assert (office.bought["quick", 0], office.made) == (1, {"run.h/a": 1})


@pytest.mark.parametrize("writes", range(4, 19, 2))
async def test_three_deep_each_run_goes_on_where_it_stood(shop: Shop, redis_url: str, writes: int) -> None:
    """The grandchild waits for a person, is answered, and is cut off after that: nobody above it starts again."""
    office = Office(
        parent=(helped("h"), turn("the end")),
        helper=(turn("down ", d=("deeper", {"prompt": "d"})), turn("up")),
        plan=PlanSpec(name="helper", model="helper", delegates=("deeper",)),
        models={"deeper": TWO_ROUNDS},
        delegates={"deeper": PlanSpec(name="deeper", model="deeper", tools=("act", "look"))},
        approval=True,
    )
    await shop.enqueue(PARENT)
    assert (await office.staff(shop).work()).state == "paused"
    assert await decide(shop, {"kind": "approve"}) == ("run.h:run.h.d:approval:a1",)
    claim = await shop.claim()
    async with dying_worker(office.staff(shop), redis_url, claim, writes) as (dying, task):
        if await dying.killed(task):
            await shop.lose(claim)
            assert (await office.staff(shop).work()).state == "paused"
    assert await decide(shop, {"kind": "approve"}) == ("run.h:run.h.d:approval:a2",)
    assert (await office.staff(shop).work()).state == "completed"
    assert set(office.made) == {"run.h.d/a1", "run.h.d/a2"}
    told = of_children(await shop.events())
    assert {name: said(had) for name, had in told.items()} == {"run.h": "down up", "run.h.d": "one two helped"}


async def test_a_drain_hands_a_child_over_at_its_own_journal_point(shop: Shop) -> None:
    """CXL-7: its running call ends and is recorded, the next turn is bought by the next worker, nothing twice."""
    office = Office(parent=(helped("h"), turn("the end")), helper=TWO_ROUNDS, idempotent=False)
    await shop.enqueue(PARENT)
    office.hold = asyncio.Event()
    worker = office.staff(shop)
    task = asyncio.ensure_future(worker.work())
    await office.begun.wait()
    worker.draining = True
    office.hold.set()
    assert (await task).state == "queued"
    assert office.bought == {("parent", 0): 1, ("helper", 0): 1}
    assert (await office.staff(shop).work()).state == "completed"
    assert office.made == {"run.h/a1": 1, "run.h/a2": 1}
    assert set(office.bought.values()) == {1}


async def test_a_cancel_reaches_a_child_before_its_next_effect(shop: Shop) -> None:
    """The whole tree ends; no call of the child starts after the cancel was accepted (DESIGN 5)."""
    office = Office(parent=(helped("h"), turn("the end")), helper=TWO_ROUNDS)
    await shop.enqueue(PARENT)
    office.hold = asyncio.Event()
    task = asyncio.ensure_future(office.staff(shop).work())
    await office.begun.wait()
    assert (await shop.executor.execute(commands.cancel(shop.keys, "run", reason="stop"))).accepted
    office.hold.set()
    assert (await task).state == "cancelled"
    assert office.made == {"run.h/a1": 1}
    assert (await shop.events())[-1]["kind"] == "cancelled"
