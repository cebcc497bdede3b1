"""Runs of one thread go one after another; what happens to a second text is the caller's choice."""

import asyncio

import pytest
from producer.kit import APPROVAL, PLAN, AnyFleet, Stage, do

from turnfleet import RunIdConflict, ThreadBusy, TurnfleetError, UnknownRun
from turnfleet.store import commands
from turnfleet.store.listener import LOOK


async def test_the_second_run_of_a_thread_waits_for_its_turn(fleet: AnyFleet, stage: Stage) -> None:
    """It is recorded, and offered by whoever ends the first: here a cancel."""
    first = await do(fleet.enqueue, PLAN, "hi", run_id="a", thread_id="t")
    second = await do(fleet.enqueue, PLAN, "and", run_id="b", thread_id="t")
    assert stage.published() == ["a"]
    assert (await do(second.status)).state == "queued"
    await do(first.cancel)
    assert stage.published() == ["a", "b"]


async def test_the_first_message_of_a_run_that_waited_has_the_runs_id(fleet: AnyFleet, stage: Stage) -> None:
    """Flower finds it by the id that users know (DESIGN 7)."""
    for run_id in "abc":
        await do(fleet.enqueue, PLAN, "hi", run_id=run_id, thread_id="t")
    await do(fleet.run("b").cancel)
    await do(fleet.run("a").cancel)
    assert stage.published() == ["a", "c"]


async def test_a_busy_thread_rejects_and_nothing_is_left_behind(fleet: AnyFleet, stage: Stage) -> None:
    """The error names the run in front; the refused run never was, so that no event of it is published."""
    await do(fleet.enqueue, PLAN, "hi", run_id="a", thread_id="t")
    with stage.executor.subscribe(stage.keys.events("b")) as channel:
        assert channel.get(60) is LOOK
        with pytest.raises(ThreadBusy, match="'a'") as busy:
            await do(fleet.enqueue, PLAN, "and", run_id="b", thread_id="t", double_text="reject")
        assert channel.get(0.1) is None
    assert (busy.value.thread_id, busy.value.run_id) == ("t", "a")
    with pytest.raises(UnknownRun):
        await do(fleet.run("b").status)
    assert stage.line("t") == ["a"]
    await do(fleet.run("a").cancel)
    await do(fleet.enqueue, PLAN, "and", run_id="b", thread_id="t", double_text="reject")
    assert stage.published() == ["a", "b"]


async def test_of_many_that_reject_one_runs(fleet: AnyFleet, stage: Stage) -> None:
    """Asked for at once, exactly one is there afterwards; the others are gone without a trace."""
    ids = [f"run-{place}" for place in range(8)]
    answers = await asyncio.gather(
        *(do(fleet.enqueue, PLAN, "hi", run_id=each, thread_id="t", double_text="reject") for each in ids),
        return_exceptions=True,
    )
    errors = [each for each in answers if isinstance(each, TurnfleetError)]
    assert all(isinstance(each, ThreadBusy) for each in errors)
    assert len(errors) == len(ids) - 1
    assert len(stage.published()) == 1
    assert stage.line("t") == stage.published()
    assert [each.run_id for each in await do(fleet.runs)] == stage.published()


async def test_the_same_request_again_is_no_second_text(fleet: AnyFleet, stage: Stage) -> None:
    """A run that is there already is not rejected for its own sake, and joins no line twice."""
    for double_text in ("enqueue", "reject", "interrupt"):
        await do(fleet.enqueue, PLAN, "hi", run_id="a", thread_id="t", double_text=double_text)
    await do(fleet.enqueue, PLAN, "hi", run_id="b", thread_id="t")
    await do(fleet.enqueue, PLAN, "hi", run_id="b", thread_id="t", double_text="reject")
    assert stage.line("t") == ["a", "b"]
    assert stage.published() == ["a"]


async def test_an_ended_run_enqueued_again_does_not_block_its_thread(fleet: AnyFleet, stage: Stage) -> None:
    """It exists, so it does not join the line anew."""
    await do(fleet.enqueue, PLAN, "hi", run_id="a", thread_id="t")
    await do(fleet.run("a").cancel)
    await do(fleet.enqueue, PLAN, "hi", run_id="a", thread_id="t")
    assert stage.line("t") == []


async def test_a_conflict_leaves_the_line_as_it_was(fleet: AnyFleet, stage: Stage) -> None:
    """Another request under a waiting run's id takes nothing away from that run."""
    await do(fleet.enqueue, PLAN, "hi", run_id="a", thread_id="t")
    await do(fleet.enqueue, PLAN, "hi", run_id="b", thread_id="t")
    with pytest.raises(RunIdConflict):
        await do(fleet.enqueue, PLAN, "other", run_id="b", thread_id="t")
    assert stage.line("t") == ["a", "b"]


async def test_interrupt_cancels_the_earlier_runs(fleet: AnyFleet, stage: Stage) -> None:
    """Those that wait end at once; no turn is passed to any of them; runs of other threads stay."""
    await do(fleet.enqueue, PLAN, "hi", run_id="other", thread_id="u")
    for run_id in "abc":
        await do(fleet.enqueue, PLAN, "hi", run_id=run_id, thread_id="t")
    await do(fleet.enqueue, PLAN, "stop", run_id="d", thread_id="t", double_text="interrupt")
    assert [(await do(fleet.run(each).status)).state for each in "abcd"] == ["cancelled"] * 3 + ["queued"]
    assert stage.line("t") == ["d"]
    assert stage.published() == ["other", "a", "d"]


async def test_interrupt_waits_for_a_run_that_is_running(fleet: AnyFleet, stage: Stage) -> None:
    """Its cancel is recorded; the new run goes when its worker has ended it."""
    await do(fleet.enqueue, PLAN, "hi", run_id="a", thread_id="t")
    stage.claim("a")
    await do(fleet.enqueue, PLAN, "hi", run_id="b", thread_id="t")
    await do(fleet.enqueue, PLAN, "stop", run_id="c", thread_id="t", double_text="interrupt")
    status = await do(fleet.run("a").status)
    assert (status.state, status.cancel_reason) == ("running", "interrupted by a newer run of its thread")
    assert (await do(fleet.run("b").status)).state == "cancelled"
    assert stage.line("t") == ["a", "c"]
    assert stage.published() == ["a"]


async def test_interrupt_ends_a_run_that_waits_for_a_person(fleet: AnyFleet, stage: Stage) -> None:
    """A paused run holds its thread until then."""
    await do(fleet.enqueue, PLAN, "hi", run_id="a", thread_id="t")
    stage.pauses(stage.claim("a"), APPROVAL)
    await do(fleet.enqueue, PLAN, "stop", run_id="b", thread_id="t", double_text="interrupt")
    assert (await do(fleet.run("a").status)).state == "cancelled"
    assert stage.published() == ["a", "b"]


async def test_a_run_that_ended_without_leaving_blocks_nobody(fleet: AnyFleet, stage: Stage) -> None:
    """Its worker died between the end and the turn: the next one to come finds out."""
    await do(fleet.enqueue, PLAN, "hi", run_id="a", thread_id="t")
    stage.completes(stage.claim("a"))
    assert stage.line("t") == ["a"]
    await do(fleet.enqueue, PLAN, "hi", run_id="b", thread_id="t", double_text="reject")
    assert stage.published() == ["a", "b"]


async def test_a_later_run_of_a_thread_keeps_its_eta(fleet: AnyFleet, stage: Stage) -> None:
    """Its turn may come before its time: then it is published when due, by the sweep."""
    await do(fleet.enqueue, PLAN, "hi", run_id="a", thread_id="t", countdown=3600)
    assert stage.published() == []
    assert stage.executor.execute(commands.thread_head(stage.keys, "t")) == "a"


async def test_many_of_one_thread_keep_their_order(fleet: AnyFleet, stage: Stage) -> None:
    """`enqueue_many` takes runs of threads, too, one by one."""
    items = [{"plan": PLAN, "request": "hi", "run_id": each, "thread_id": "t"} for each in "abc"]
    await do(fleet.enqueue_many, [*items, (PLAN, "alone")])
    assert stage.line("t") == ["a", "b", "c"]
    assert len(stage.published()) == 2
