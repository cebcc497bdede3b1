"""What else a handle does: status, cancel, retry, delete; and a fleet's lists of many."""

import itertools
from dataclasses import replace

import pytest
from producer.kit import APPROVAL, PLAN, QUESTION, AnyFleet, Stage, do, each

from turnfleet import IllegalTransition, InvalidId, Page, PlanSpec, RunInterrupt, RunStatus, UnknownRun
from turnfleet.store import Keys, commands


async def test_the_status_follows_the_run(fleet: AnyFleet, stage: Stage) -> None:
    """Queued, running on a worker, completed: with times that only go forward."""
    run = await do(fleet.enqueue, PLAN, "hi")
    queued = await do(run.status)
    claim = stage.claim(run.run_id)
    running = await do(run.status)
    stage.completes(claim)
    completed = await do(run.status)
    assert [(each.state, each.attempts, each.ended) for each in (queued, running, completed)] == [
        ("queued", 0, False),
        ("running", 1, False),
        ("completed", 1, True),
    ]
    assert (queued.plan_id, queued.plan_name, running.worker) == (claim.plan_id, "support", "worker-1")
    assert completed.started_at is not None
    assert completed.ended_at is not None
    assert queued.created_at <= completed.started_at <= completed.ended_at


async def test_a_queued_run_is_cancelled_at_once(fleet: AnyFleet) -> None:
    """True, an event with the reason, and a second cancel comes too late."""
    run = await do(fleet.enqueue, PLAN, "hi")
    assert await do(run.cancel, reason="enough") is True
    assert (await do(run.status)).state == "cancelled"
    assert [(event.kind, event.reason) async for event in each(run)] == [("cancelled", "enough")]
    assert await do(run.cancel) is False


async def test_a_running_run_keeps_the_intent_until_its_worker_ends_it(fleet: AnyFleet, stage: Stage) -> None:
    """True means that the wish came before any outcome: a finish after it yields `cancelled` (DESIGN 5)."""
    run = await do(fleet.enqueue, PLAN, "hi")
    claim = stage.claim(run.run_id)
    assert await do(run.cancel, "enough") is True
    status = await do(run.status)
    assert (status.state, status.cancel_reason) == ("running", "enough")
    stage.completes(claim)
    assert (await do(run.status)).state == "cancelled"


async def test_only_a_failed_run_is_retried(fleet: AnyFleet, stage: Stage) -> None:
    """It is queued and offered under its next number; in any other state nothing changes."""
    run = await do(fleet.enqueue, PLAN, "hi")
    with pytest.raises(IllegalTransition, match="queued"):
        await do(run.retry)
    stage.fails(stage.claim(run.run_id))
    await do(run.retry)
    assert stage.published() == [run.run_id, f"{run.run_id}:2"]
    assert (await do(run.status)).state == "queued"


async def test_only_an_ended_run_is_deleted(fleet: AnyFleet, stage: Stage) -> None:
    """It is unknown then; deleting it again says False."""
    run = await do(fleet.enqueue, PLAN, "hi")
    with pytest.raises(IllegalTransition, match="queued"):
        await do(run.delete)
    stage.completes(stage.claim(run.run_id))
    assert await do(run.delete) is True
    with pytest.raises(UnknownRun):
        await do(run.status)
    assert await do(run.delete) is False


async def test_every_first_use_of_an_unknown_run_says_so(fleet: AnyFleet) -> None:
    """A handle is made without asking anybody; an impossible id is refused at once."""
    run = fleet.run("nobody")
    for use in (run.status, run.interrupts, run.cancel, run.retry):
        with pytest.raises(UnknownRun, match="nobody"):
            await do(use)
    with pytest.raises(InvalidId, match="run id"):
        fleet.run("no body")


async def test_runs_are_listed_newest_first_page_by_page(fleet: AnyFleet) -> None:
    """Pages do not overlap and together hold every run; the last one has no cursor."""
    ids = [(await do(fleet.enqueue, PLAN, "hi", run_id=f"run-{place}")).run_id for place in range(12)]
    listed: list[str] = []
    cursor = None
    for _ in range(20):
        page: Page[RunStatus] = await do(fleet.runs, limit=5, cursor=cursor)
        listed += [each.run_id for each in page]
        cursor = page.cursor
        if cursor is None:
            break
    assert sorted(listed) == sorted(ids)
    statuses = (await do(fleet.runs)).items
    assert [each.created_at for each in statuses] == sorted((each.created_at for each in statuses), reverse=True)


async def test_a_page_is_full_however_the_runs_lie(fleet: AnyFleet, fleet_name: str, stage: Stage) -> None:
    """All of forty runs in one shard of sixteen: pages of twenty are full, in order, and leave none out."""
    shard_of = Keys(fleet_name).shard
    ids = list(itertools.islice((f"run-{n}" for n in itertools.count() if shard_of(f"run-{n}") == 3), 40))
    for run_id in ids:
        await do(fleet.enqueue, PLAN, "hi", run_id=run_id)
        stage.pauses(stage.claim(run_id), APPROVAL)
    first = await do(fleet.runs, limit=20)
    second = await do(fleet.runs, limit=20, cursor=first.cursor)
    assert sorted(each.run_id for each in [*first, *second]) == sorted(ids)
    assert [len(first), len(second), second.cursor] == [20, 20, None]
    created = [each.created_at for each in [*first, *second]]
    assert created == sorted(created, reverse=True)
    waiting = await do(fleet.interrupts, limit=20)
    rest = await do(fleet.interrupts, limit=20, cursor=waiting.cursor)
    assert [len(waiting), len(rest), rest.cursor] == [20, 20, None]
    assert sorted(each.run_id for each in [*waiting, *rest]) == sorted(ids)


async def test_runs_are_listed_by_state_and_tenant(fleet: AnyFleet, stage: Stage) -> None:
    """Both filters, alone and together."""
    for run_id, tenant in (("a", "acme"), ("b", "acme"), ("c", "other")):
        await do(fleet.enqueue, PLAN, "hi", run_id=run_id, tenant=tenant)
    stage.completes(stage.claim("a"))
    assert {each.run_id for each in await do(fleet.runs, state="queued")} == {"b", "c"}
    assert {each.run_id for each in await do(fleet.runs, tenant="acme")} == {"a", "b"}
    assert {each.run_id for each in await do(fleet.runs, tenant="acme", state="completed")} == {"a"}
    with pytest.raises(ValueError, match="asleep"):
        await do(fleet.runs, state="asleep")


async def test_a_cursor_that_is_none_is_refused(fleet: AnyFleet) -> None:
    """Cursors are opaque, and only ours."""
    with pytest.raises(InvalidId, match="cursor"):
        await do(fleet.runs, cursor="???")


async def test_the_inbox_has_what_a_role_may_decide(fleet: AnyFleet, stage: Stage) -> None:
    """Open interrupts of all waiting runs; those of other roles and those decided are left out."""
    for run_id, roles in (("a", ("finance",)), ("b", ("sales",)), ("c", ())):
        await do(fleet.enqueue, PlanSpec(name=f"plan-{run_id}", model="small"), "hi", run_id=run_id)
        stage.pauses(stage.claim(run_id), replace(APPROVAL, roles=roles), QUESTION)
    everything: Page[RunInterrupt] = await do(fleet.interrupts)
    assert sorted((each.run_id, each.id) for each in everything) == [
        (run_id, each.id) for run_id in "abc" for each in (APPROVAL, QUESTION)
    ]
    finance = await do(fleet.interrupts, role="finance")
    assert sorted((each.run_id, each.plan_name) for each in finance if each.tool) == [("a", "plan-a"), ("c", "plan-c")]
    stage.executor.execute(commands.cancel(stage.keys, "a", reason="enough"))
    assert {each.run_id for each in await do(fleet.interrupts, role="finance")} == {"b", "c"}


async def test_live_workers_say_what_they_have(fleet: AnyFleet, stage: Stage) -> None:
    """What a worker announces is what users see."""
    assert await do(fleet.workers) == ()
    stage.announce(models=["small"], tools=["refund"])
    assert await do(fleet.workers) == ({"models": ["small"], "tools": ["refund"]},)
