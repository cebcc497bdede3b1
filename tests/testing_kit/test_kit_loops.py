"""The kit beside other people's event loops and threads, of which it leaves none behind."""

import asyncio
import threading
from functools import partial
from typing import Any

import anyio
import pytest
from support.waiting import eventually
from testing_kit.kit import PLAN, WAITING, Desk, refund, script

from turnfleet import AsyncFleet, AsyncRun, Fleet, KernelEvent, RunPaused
from turnfleet_worker.testing import AsyncLocalFleet, LocalFleet, Person, call, local_fleet

LOOK = (call("look", what="it"), "seen")


async def _use() -> None:
    async with local_fleet(Desk().registry, models=script(*LOOK, refund(80))) as fleet:
        assert isinstance(fleet, AsyncFleet)
        run = await fleet.enqueue(PLAN, "look")
        assert [event.kind async for event in run.events()][-1] == "done"
        assert (await run.result()).tool_outcomes[0].value == "it seen"


async def test_on_the_loop_of_a_test() -> None:
    """With `await`, and as a Fleet that other code may be given."""
    await _use()


async def test_all_that_can_be_done_to_a_fleet_can_be_awaited() -> None:
    """Time, messages, workers, people."""
    desk = Desk()
    alice = Person({}, roles=("finance",))
    async with local_fleet(desk.registry, models=script(refund(80), "done"), person=alice) as fleet:
        fleet.lose_next()
        run = await fleet.enqueue(PLAN, "refund")
        await fleet.skip(seconds=15)
        await fleet.settle()
        with pytest.raises(RunPaused):
            await run.result()
        await fleet.kill_worker(restart=False)
        await fleet.start_worker()
        await fleet.stop_worker()
        await fleet.start_worker()
        await fleet.skip(hours=1)
        assert (await run.result()).text == "done"
        assert (len(alice.seen), desk.done, fleet.tool_failures) == (1, [], ())


def test_below_anyio() -> None:
    """Its asyncio backend is asyncio."""
    anyio.run(_use)


async def test_without_await_while_a_loop_runs() -> None:
    """A plain `with` in a coroutine blocks it, and works: its fleet has a loop of its own."""
    with local_fleet(Desk().registry, models=script(*LOOK)) as fleet:
        assert isinstance(fleet, Fleet)
        assert fleet.enqueue(PLAN, "look").result().text == "seen"


async def _read(run: AsyncRun[Any]) -> list[KernelEvent]:
    return [event async for event in run.events()]


async def test_nothing_is_left_on_the_loop() -> None:
    """Not even of runs and readers that were in the middle of something, of a killed worker, or of a failed test."""
    before, readers = asyncio.all_tasks(), []

    async def break_off() -> None:
        async with local_fleet(Desk().registry, models=script(call("look", what="it"), *WAITING)) as fleet:
            run = await fleet.enqueue(PLAN, "wait")
            await fleet.settle()
            readers.append(asyncio.ensure_future(_read(run)))
            await fleet.kill_worker()
            await fleet.enqueue(PLAN, "wait")
            await fleet.settle()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await break_off()
    with pytest.raises(RuntimeError, match="this local fleet is closed"):
        await asyncio.wait_for(readers[0], 60)
    assert asyncio.all_tasks() == before


def test_no_thread_is_left() -> None:
    """Neither the loop's, the heartbeat's, nor those that plain tools ran in."""
    before = set(threading.enumerate())
    with local_fleet(Desk().registry, models=script(*LOOK, *WAITING)) as fleet:
        run = fleet.enqueue(PLAN, "look")
        assert next(run.events()).run_id == run.run_id
        fleet.settle()
        assert len(set(threading.enumerate()) - before) >= 3
        fleet.kill_worker()
    eventually(lambda: set(threading.enumerate()) <= before, 8)  # their own patience is 10 seconds


def test_what_is_left_of_a_closed_fleet_says_so() -> None:
    """A handle kept beyond the end, and a fleet that is used again."""
    with local_fleet(Desk().registry, models=script("hi")) as fleet:
        run = fleet.enqueue(PLAN, "hi")
        events = run.events()
        next(events)
    events.close()
    with pytest.raises(RuntimeError, match="closed"):
        run.status()
    with pytest.raises(RuntimeError, match="closed"), fleet:
        pass


def test_without_a_with() -> None:
    """What `local_fleet` gives is a Fleet at once; nothing runs before its first use, or after its end."""
    before = set(threading.enumerate())
    fleet = local_fleet(Desk().registry, models=script("hi"))
    assert isinstance(fleet, Fleet)
    assert repr(fleet) == "<Fleet local in this process>"
    assert set(threading.enumerate()) <= before
    try:
        assert fleet.enqueue(PLAN, "hi").result().text == "hi"
    finally:
        fleet.close()
        fleet.close()
    eventually(lambda: set(threading.enumerate()) <= before, 8)
    with pytest.raises(RuntimeError, match="closed"):
        fleet.runs()


def test_code_that_closes_the_fleet_it_was_given_does_not_end_it_for_the_test() -> None:
    """A service that closes its Fleet when it stops, as it should, leaves the test its runs to look at."""
    with local_fleet(Desk().registry, models=script("hi")) as fleet:
        with fleet:
            run = fleet.enqueue(PLAN, "hi")
        fleet.close()
        assert run.result().text == "hi"


async def test_a_fleet_has_one_loop() -> None:
    """It is awaited, or it is not: never one after the other, and awaited once."""
    fleet = local_fleet(Desk().registry, models=script("hi"))
    async with fleet:
        with pytest.raises(RuntimeError, match="closed"):
            fleet.runs()
    with pytest.raises(RuntimeError, match="has begun already"):
        await fleet.__aenter__()
    begun = local_fleet(Desk().registry, models=script("hi"))
    with begun, pytest.raises(RuntimeError, match="has begun already"):
        await begun.__aenter__()


def test_a_tool_may_use_the_fleet_that_runs_it_from_its_own_thread_only() -> None:
    """On the loop it would wait for itself: that is an error, not a test that hangs."""
    desk, handed = Desk(), list[LocalFleet]()

    @desk.registry.tool
    def count() -> int:
        return len(handed[0].runs())

    @desk.registry.tool
    async def wrongly() -> int:
        return len(handed[0].runs())

    plan = PLAN.model_copy(update={"tools": ("count", "wrongly")})
    with local_fleet(desk.registry, models=script(call("count"), call("wrongly"), "done")) as fleet:
        handed.append(fleet)
        counted, failed = fleet.enqueue(plan, "count").result().tool_outcomes
        assert counted.value == 1
        assert "call it in a plain function" in (failed.error or "")


def test_without_asyncio_there_is_no_async_fleet() -> None:
    """Said in words, for whoever runs on another loop."""
    coroutine = local_fleet(Desk().registry).__aenter__()
    with pytest.raises(RuntimeError, match="a local fleet runs on asyncio"):
        coroutine.send(None)


def test_many_runs_at_once() -> None:
    """All of them through one worker, with fewer slots than runs."""

    async def main(count: int) -> None:
        async with local_fleet(Desk().registry, models=script(*LOOK), concurrency=10) as fleet:
            assert isinstance(fleet, AsyncLocalFleet)
            runs = await fleet.enqueue_many([(PLAN, f"look {number}") for number in range(count)])
            outcomes = await asyncio.gather(*(run.result(60) for run in runs))
            assert [outcome.text for outcome in outcomes] == ["seen"] * count

    asyncio.run(main(50))
    anyio.run(partial(main, 10))
