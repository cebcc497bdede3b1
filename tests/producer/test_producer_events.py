"""Following events: pub/sub for now, the log for late, no hole between (DESIGN 3)."""

import asyncio
import json
import threading
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest
from producer.kit import APPROVAL, PLAN, AnyFleet, AnyRun, Stage, do, each, event, indexes
from support.waiting import eventually

from turnfleet import AsyncFleet, EventsTrimmed, Fleet, KernelEvent, UnknownRun
from turnfleet.store import Keys, commands


async def _listening(stage: Stage, run_id: str, count: int = 1) -> None:
    await asyncio.to_thread(eventually, lambda: stage.subscribers(run_id) == count, what="the subscription")


async def _reading(run: AnyRun, **how: Any) -> "asyncio.Task[list[KernelEvent]]":
    async def read() -> list[KernelEvent]:
        return [event async for event in each(run, **how)]

    return asyncio.ensure_future(read())


async def test_before_during_and_after_see_the_same_sequence(fleet: AnyFleet, stage: Stage) -> None:
    """A reader that was there first, one that came in the middle, and one that came after the end."""
    run = await do(fleet.enqueue, PLAN, "hi")
    before = await _reading(run)
    await _listening(stage, run.run_id)
    claim = stage.claim(run.run_id)
    stage.says(claim, "a", "b")
    during = await _reading(run)
    await asyncio.to_thread(eventually, lambda: stage.redis.pubsub_numsub(stage.keys.events(run.run_id)))
    stage.says(claim, "c")
    stage.completes(claim)
    seen = [await before, await during, [event async for event in each(run)]]
    assert seen[0] == seen[1] == seen[2]
    assert [(event.index, event.kind) for event in seen[0]] == [
        (0, "text_delta"),
        (1, "text_delta"),
        (2, "text_delta"),
        (3, "done"),
    ]
    assert seen[0][-1].outcome.text == "hello"


async def test_a_reader_comes_back_with_after(fleet: AnyFleet, stage: Stage) -> None:
    """`after=N` gives what follows N: each event once, none left out."""
    run = await do(fleet.enqueue, PLAN, "hi")
    claim = stage.claim(run.run_id)
    stage.says(claim, "a", "b", "c")
    async with aclosing(each(run)) as events:
        had = [(await anext(events)).index, (await anext(events)).index]
    stage.says(claim, "d")
    stage.completes(claim)
    assert had + await indexes(run, after=had[-1]) == [0, 1, 2, 3, 4]
    assert await indexes(run, after=4) == []


async def test_a_long_log_is_read_page_by_page(fleet: AnyFleet, stage: Stage) -> None:
    """More batches than one look asks for come all the same, in order."""
    run = await do(fleet.enqueue, PLAN, "hi")
    claim = stage.claim(run.run_id)
    for place in range(450):
        at = event(run.run_id, place, "text_delta", text="x")
        stage.executor.execute(commands.step(stage.keys, claim, seq=place + 1, entries=[], events=[at]))
    stage.completes(claim)
    assert await indexes(run) == list(range(451))


async def test_a_lost_publish_delays_the_end_by_one_poll(fleet: AnyFleet, stage: Stage) -> None:
    """The subscriber's connection is killed as the last event is published: the log still has it."""
    run = await do(fleet.enqueue, PLAN, "hi")
    claim = stage.claim(run.run_id)
    reading = await _reading(run)
    await _listening(stage, run.run_id)
    stage.redis.client_kill_filter(_type="pubsub")
    stage.completes(claim)
    assert [event.kind for event in await asyncio.wait_for(reading, 60)] == ["done"]


async def test_the_end_is_found_in_the_log_when_nothing_is_heard_at_all(stage: Stage) -> None:
    """A fleet whose channel stays silent still ends: the log is looked at every `poll_interval`."""
    with Fleet(stage.url, name=stage.fleet, poll_interval=0.2) as client:
        run = client.enqueue(PLAN, "hi")
        claim = stage.claim(run.run_id)
        heard: list[KernelEvent] = []
        reader = threading.Thread(target=lambda: heard.extend(run.events(timeout=60)))
        reader.start()
        await _listening(stage, run.run_id)
        # The event goes into the log alone, the state is set beside it: no PUBLISH at all.
        done = event(run.run_id, 0, "done", outcome={"text": "hi", "run_id": run.run_id})
        stage.redis.xadd(stage.keys.events(run.run_id), {"b": _json([done])}, id="0-1")
        stage.redis.hset(stage.keys.record(claim.run_id), mapping={"state": "completed", "next": "1"})
        await asyncio.to_thread(reader.join, 10)
        assert [each.kind for each in heard] == ["done"]


def _json(value: Any) -> str:
    return json.dumps(value)


async def test_a_message_that_leaves_a_gap_is_settled_by_the_log(fleet: AnyFleet, stage: Stage) -> None:
    """Messages that do not follow on, repeat, or are no JSON only make the reader look."""
    run = await do(fleet.enqueue, PLAN, "hi")
    claim = stage.claim(run.run_id)
    reading = await _reading(run)
    await _listening(stage, run.run_id)
    channel = stage.keys.events(run.run_id)
    stage.redis.publish(channel, _json([event(run.run_id, 7, "text_delta", text="from the future")]))
    stage.redis.publish(channel, b"\xff not json")
    stage.redis.publish(channel, _json({"index": 0}))
    stage.says(claim, "a")
    stage.redis.publish(channel, _json([event(run.run_id, 0, "text_delta", text="a")]))
    stage.completes(claim)
    assert [event.index for event in await reading] == [0, 1]


async def test_a_gap_is_filled_from_the_log_at_once(another: Callable[..., AnyFleet], stage: Stage) -> None:
    """A lost message is noticed with the next one, long before the next poll."""
    run = await do(another(poll_interval=3600).enqueue, PLAN, "hi")
    claim = stage.claim(run.run_id)
    async with aclosing(each(run)) as events:
        first = asyncio.ensure_future(anext(events))
        await _listening(stage, run.run_id)
        stage.says(claim, "a")
        assert (await first).index == 0
        # Event 1 gets into the log without a PUBLISH; event 2 is published, and does not follow on.
        lost = event(run.run_id, 1, "text_delta", text="b")
        stage.redis.xadd(stage.keys.events(run.run_id), {"b": _json([lost])}, "0-2")
        stage.redis.hset(stage.keys.record(run.run_id), "next", "2")
        stage.says(claim, "c")
        assert [(await asyncio.wait_for(anext(events), 60)).index, (await anext(events)).index] == [1, 2]


async def test_a_failed_run_that_is_retried_goes_on(fleet: AnyFleet, stage: Stage) -> None:
    """An `error` that is no longer the end does not end the iteration (DESIGN 1: retry)."""
    run = await do(fleet.enqueue, PLAN, "hi")
    stage.fails(stage.claim(run.run_id))
    assert [event.kind async for event in each(run)] == ["error"]
    await do(run.retry)
    reading = await _reading(run)
    await _listening(stage, run.run_id)
    stage.completes(stage.claim(run.run_id))
    assert [event.kind for event in await reading] == ["error", "resumed", "done"]


async def test_until_pause_stops_at_a_pause_and_the_default_does_not(fleet: AnyFleet, stage: Stage) -> None:
    """A paused run is over for who waits for the pause; others go on after it (EVT-11)."""
    run = await do(fleet.enqueue, PLAN, "hi")
    to_end = await _reading(run)
    to_pause = await _reading(run, until="pause")
    stage.pauses(stage.claim(run.run_id), APPROVAL)
    (pause,) = await to_pause
    assert (pause.kind, pause.interrupt.id) == ("approval", APPROVAL.id)
    assert not to_end.done()
    assert [event.kind async for event in each(run, until="pause", after=0)] == []
    stage.executor.execute(commands.cancel(stage.keys, run.run_id, reason="enough"))
    assert [event.kind for event in await to_end] == ["approval", "cancelled"]


async def test_timeout_counts_idle_seconds(fleet: AnyFleet, stage: Stage) -> None:
    """TimeoutError names the run and what it is; events that come in time start the count again."""
    run = await do(fleet.enqueue, PLAN, "hi")
    stage.says(stage.claim(run.run_id), "a")
    async with aclosing(each(run, timeout=0.2)) as events:
        assert (await anext(events)).index == 0
        with pytest.raises(TimeoutError, match=rf"{run.run_id}.*it is running"):
            await anext(events)


async def test_events_that_left_the_log_are_an_error_with_the_first_index(fleet: AnyFleet, stage: Stage) -> None:
    """The log is bounded; the reader is told where it begins now."""
    run = await do(fleet.enqueue, PLAN, "hi")
    claim = stage.claim(run.run_id)
    stage.says(claim, "a")
    stage.says(claim, "b")
    stage.completes(claim)
    stage.redis.xtrim(stage.keys.events(run.run_id), maxlen=1, approximate=False)
    with pytest.raises(EventsTrimmed) as trimmed:
        await indexes(run)
    assert trimmed.value.first_index == 2
    assert await indexes(run, after=trimmed.value.first_index - 1) == [2]


async def test_an_unknown_run_is_an_error_on_first_use(fleet: AnyFleet) -> None:
    """A handle asks nobody; its first use does."""
    run = fleet.run("nobody")
    with pytest.raises(UnknownRun, match="nobody"):
        await indexes(run)


async def test_leaving_early_leaves_no_subscription_and_no_connection(
    another: Callable[..., AnyFleet], own_stage: Stage
) -> None:
    """Closing the iterator gives back what following took (DESIGN 3)."""
    run = await do(another(url=own_stage.url).enqueue, PLAN, "hi")
    own_stage.says(own_stage.claim(run.run_id), "a")
    async with aclosing(each(run)) as events:
        await anext(events)
        following = asyncio.ensure_future(anext(events))
        await _listening(own_stage, run.run_id)
        assert own_stage.listening_connections() == 1
        own_stage.says_more(run.run_id)
        await following
    await _listening(own_stage, run.run_id, 0)
    await asyncio.to_thread(eventually, lambda: own_stage.listening_connections() == 0)


async def test_a_reader_that_is_cancelled_again_while_it_leaves_takes_its_subscription_along(stage: Stage) -> None:
    """Web frameworks cancel at every wait until a task has ended (anyio does): leaving must not need to wait."""
    async with AsyncFleet(stage.url, name=stage.fleet) as client:
        run = await client.enqueue(PLAN, "hi")
        reader = await _reading(run)
        await _listening(stage, run.run_id)
        while not reader.done():
            reader.cancel()
            await asyncio.sleep(0)
        await _listening(stage, run.run_id, 0)


async def test_a_finished_run_is_read_without_subscribing(fleet: AnyFleet, stage: Stage) -> None:
    """Who comes after the end needs the log alone."""
    run = await do(fleet.enqueue, PLAN, "hi")
    stage.completes(stage.claim(run.run_id))
    before = stage.redis.info("stats")["total_connections_received"]
    assert await indexes(run) == [0]
    assert stage.redis.info("stats")["total_connections_received"] - before <= 1


async def test_one_reader_that_leaves_does_not_disturb_another(stage: Stage) -> None:
    """Readers of one run in one client share a connection and nothing else."""
    async with AsyncFleet(stage.url, name=stage.fleet) as client:
        run = await client.enqueue(PLAN, "hi")
        claim = stage.claim(run.run_id)
        stays = await _reading(run)
        leaves = await _reading(run)
        stage.says(claim, "a")
        await _listening(stage, run.run_id)
        leaves.cancel()
        await asyncio.wait({leaves})
        stage.says(claim, "b")
        stage.completes(claim)
        assert [event.index for event in await stays] == [0, 1, 2]


async def test_a_slow_reader_gets_everything_and_slows_nobody(stage: Stage) -> None:
    """A reader that lags behind its buffer falls back to the log; one beside it is not held up."""
    async with AsyncFleet(stage.url, name=stage.fleet) as client:
        run = await client.enqueue(PLAN, "hi")
        claim = stage.claim(run.run_id)
        stage.says(claim, "first")
        async with aclosing(each(run)) as slow:
            assert (await anext(slow)).index == 0
            following = asyncio.ensure_future(anext(slow))
            await _listening(stage, run.run_id)

            def write() -> None:
                for place in range(1, 1_500):
                    at = event(run.run_id, place, "text_delta", text="x")
                    stage.executor.execute(commands.step(stage.keys, claim, seq=place + 1, entries=[], events=[at]))
                stage.completes(claim)

            await asyncio.to_thread(write)
            assert await indexes(run) == list(range(1_501))
            assert [(await following).index, *[event.index async for event in slow]] == list(range(1, 1_501))


async def test_two_fleets_on_one_redis_see_nothing_of_each_other(stage: Stage, fleet: AnyFleet) -> None:
    """The fleet's name is in every key: the same run id is another run."""
    await do(fleet.enqueue, PLAN, "hi", run_id="run-1")
    with Fleet(stage.url, name=f"{stage.fleet}-other") as other, pytest.raises(UnknownRun):
        other.run("run-1").status()
    assert Keys(stage.fleet).record("run-1") != Keys(f"{stage.fleet}-other").record("run-1")
