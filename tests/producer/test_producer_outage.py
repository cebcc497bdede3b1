"""A call that waits for a run waits through an outage of its Redis; one that asks once says at once that it is away."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from producer.kit import PLAN, AnyFleet, Stage, do, each, indexes
from support.redis_server import RedisServer
from support.waiting import eventually
from worker.kit import until

from turnfleet import FleetUnavailable
from turnfleet.client.capabilities import Capabilities

PATIENCE = 60.0
"""Seconds after which the test calls it a hang."""

Noticed = Callable[[], None]


@pytest.fixture
def noticed(caplog: pytest.LogCaptureFixture) -> Noticed:
    """Give a function that waits until a waiting call has met the outage, which it logs once."""

    def wait() -> None:
        eventually(lambda: "asking again" in caplog.text, what="the waiting call meets the outage")

    return wait


@pytest.fixture
async def far(another: Callable[..., AnyFleet], own_redis: RedisServer) -> AnyFleet:
    """Give each client in turn, on a Redis of the test's own."""
    return another(url=own_redis.url, timeout=1, poll_interval=0.5)


@pytest.fixture
def locked() -> Iterator[RedisServer]:
    """Give a server that wants a password."""
    server = RedisServer("--requirepass", "right")
    server.start()
    yield server
    server.close()


@pytest.mark.parametrize("timeout", [PATIENCE, None])
async def test_a_result_is_waited_for_through_a_crash_of_the_server(
    far: AnyFleet, own_redis: RedisServer, own_stage: Stage, noticed: Noticed, timeout: float | None
) -> None:
    """The wait began before; the outcome comes after. A plain question meanwhile is an error at once."""
    run = await do(far.enqueue, PLAN, "hi")
    own_redis.sync_always()
    waiting = asyncio.ensure_future(do(run.result, timeout=timeout))
    await asyncio.to_thread(eventually, lambda: own_stage.subscribers(run.run_id) == 1)
    own_redis.kill()
    await asyncio.to_thread(noticed)
    with pytest.raises(FleetUnavailable):
        await do(run.status)
    assert not waiting.done()
    await asyncio.to_thread(own_redis.start)
    own_stage.completes(own_stage.claim(run.run_id), text="hello")
    assert (await asyncio.wait_for(waiting, PATIENCE)).text == "hello"


async def test_a_wait_may_begin_while_the_server_is_away(
    far: AnyFleet, own_redis: RedisServer, own_stage: Stage, noticed: Noticed
) -> None:
    """Whoever says how long to wait is not told after a moment that it was in vain."""
    run = await do(far.enqueue, PLAN, "hi")
    own_stage.completes(own_stage.claim(run.run_id), text="hello")
    own_redis.stop()
    waiting = asyncio.ensure_future(do(run.result, timeout=PATIENCE))
    await asyncio.to_thread(noticed)
    await asyncio.to_thread(own_redis.start)
    assert (await asyncio.wait_for(waiting, PATIENCE)).text == "hello"


@pytest.mark.parametrize("timeout", [PATIENCE, None])
async def test_events_go_on_after_a_crash_of_the_server(
    far: AnyFleet, own_redis: RedisServer, own_stage: Stage, noticed: Noticed, timeout: float | None
) -> None:
    """In the same loop, with none missing and none twice."""
    run = await do(far.enqueue, PLAN, "hi")
    own_redis.sync_always()
    claim = own_stage.claim(run.run_id)
    own_stage.says(claim, "a", "b")
    heard: asyncio.Queue[int] = asyncio.Queue()

    async def follow() -> None:
        async for event in each(run, timeout=timeout):
            heard.put_nowait(event.index)

    following = asyncio.ensure_future(follow())
    assert [await heard.get(), await heard.get()] == [0, 1]
    await asyncio.to_thread(eventually, lambda: own_stage.subscribers(run.run_id) == 1)
    own_redis.kill()
    await asyncio.to_thread(noticed)
    await asyncio.to_thread(own_redis.start)
    own_stage.says(claim, "c")
    own_stage.completes(claim)
    await asyncio.wait_for(following, PATIENCE)
    assert [heard.get_nowait() for _ in range(heard.qsize())] == [2, 3]


async def test_the_callers_own_time_limit_ends_the_wait(far: AnyFleet, own_redis: RedisServer) -> None:
    """With the reason: what the run is at that moment is not known, so it is no TimeoutError."""
    run = await do(far.enqueue, PLAN, "hi")
    own_redis.stop()
    for waiting in (do(run.result, timeout=1.5), indexes(run, timeout=1.5)):
        with pytest.raises(FleetUnavailable, match="asked again for") as lost:
            await asyncio.wait_for(waiting, PATIENCE)
        assert lost.value.run_id == run.run_id
        assert not isinstance(lost.value.__cause__, FleetUnavailable), "a traceback tells it once"


async def test_without_one_an_outage_is_waited_out_for_the_clients_reconnect_timeout(
    another: Callable[..., AnyFleet], own_redis: RedisServer, own_stage: Stage
) -> None:
    """Counted anew for each outage: the wait itself may last for ever."""
    fleet = another(url=own_redis.url, timeout=1, poll_interval=0.2, reconnect_timeout=1.5)
    run = await do(fleet.enqueue, PLAN, "hi")
    own_redis.stop()
    for waiting in (do(run.result), indexes(run)):
        with pytest.raises(FleetUnavailable, match="asked again for") as lost:
            await asyncio.wait_for(waiting, PATIENCE)
        assert lost.value.run_id == run.run_id


async def test_a_refused_login_is_not_waited_for(another: Callable[..., AnyFleet], locked: RedisServer) -> None:
    """It stays refused: whoever waits is told at once."""
    fleet = another(url=locked.url.replace("://", "://:wrong@"))
    for waiting in (do(fleet.run("run-1").result, timeout=20), indexes(fleet.run("run-1"), timeout=20)):
        with pytest.raises(FleetUnavailable, match=r"is the login in its URL right\?$"):
            await asyncio.wait_for(waiting, PATIENCE)


def test_a_reconnect_timeout_below_zero_is_refused(another: Callable[..., AnyFleet]) -> None:
    """Zero is none: an outage is then an error at once, unless the call has a time limit of its own."""
    with pytest.raises(ValueError, match="reconnect_timeout"):
        another(reconnect_timeout=-1)


@pytest.mark.parametrize(("asks_first", "maybe"), [(True, False), (False, True)])
async def test_what_an_enqueue_says_of_its_run_in_an_outage_is_true(
    far: AnyFleet, own_redis: RedisServer, *, asks_first: bool, maybe: bool
) -> None:
    """A server that hangs finds, when it goes on, what was sent to it. Enqueued again, the run is there once."""
    # With or without a question about the workers in front of what records the run: by its age, in earnest.
    far._setup = replace(far._setup, capabilities=Capabilities(fresh_seconds=0 if asks_first else 600))
    await do(far.enqueue, PLAN, "hi", run_id="before")
    assert own_redis.process is not None
    own_redis.process.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(FleetUnavailable) as lost:
            await asyncio.wait_for(do(far.enqueue, PLAN, "hi", run_id="run-1"), PATIENCE)
    finally:
        own_redis.process.send_signal(signal.SIGCONT)
    assert (lost.value.run_id, lost.value.maybe_enqueued) == ("run-1", maybe)
    if maybe:
        await until(lambda: in_listing(far, ["run-1", "before"]))
    else:
        assert await in_listing(far, ["before"])
    await do(far.enqueue, PLAN, "hi", run_id="run-1")
    assert await in_listing(far, ["run-1", "before"])


async def in_listing(fleet: AnyFleet, expected: list[str]) -> bool:
    """Tell whether these are the fleet's runs, newest first."""
    return [each.run_id for each in await do(fleet.runs)] == expected
