"""Subscriptions: told when to look, never disturbed by others, and nothing left behind (DESIGN 3)."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import fakeredis
import pytest
import redis
import redis.asyncio
from store.kit import Bench
from support.redis_server import RedisServer
from support.waiting import eventually
from worker.kit import until

from turnfleet.store.executor import AsyncExecutor, SyncExecutor
from turnfleet.store.listener import BUFFER, LOOK, Heard


@pytest.fixture(params=["redis", "fakeredis"])
async def executor(request: pytest.FixtureRequest) -> AsyncIterator[AsyncExecutor]:
    """Give an executor; fakeredis stands in for real Redis in users' tests, so it must publish alike."""
    if request.param == "fakeredis":
        client = fakeredis.FakeAsyncRedis()
        executor = AsyncExecutor(client)
        yield executor
        await executor.aclose()
        await client.aclose()
    else:
        executor = AsyncExecutor(request.getfixturevalue("redis_url"))
        yield executor
        await executor.aclose()


async def subscribers(client: Any, channel: str) -> int:
    """Return how many connections are subscribed to a channel."""
    ((_, count),) = await client.pubsub_numsub(channel)
    return int(count)


async def test_the_first_thing_heard_is_look(executor: AsyncExecutor, fleet_name: str) -> None:
    """From then on nothing published can be missed; what was published before is in the log."""
    channel = fleet_name + "-c"
    async with executor.subscribe(channel) as heard:
        assert LOOK is await anext(heard)
        await executor.client.publish(channel, b"1")
        await executor.client.publish(channel, b"\xff")
        assert [await anext(heard), await anext(heard)] == [b"1", b"\xff"]


async def test_readers_of_one_channel_do_not_disturb_each_other(executor: AsyncExecutor, fleet_name: str) -> None:
    """They share a subscription; one leaving, or joining late, costs the other nothing."""
    channel = fleet_name + "-c"
    async with executor.subscribe(channel) as first:
        assert LOOK is await anext(first)
        async with executor.subscribe(channel) as second:
            assert LOOK is await anext(second)
            await executor.client.publish(channel, b"1")
            assert [await anext(first), await anext(second)] == [b"1", b"1"]
        async with executor.subscribe(fleet_name + "-other") as third:
            assert LOOK is await anext(third)
        await executor.client.publish(channel, b"2")
        assert await anext(first) == b"2"
        assert await subscribers(executor.client, channel) == 1


async def test_leaving_and_joining_at_once_misses_nothing(executor: AsyncExecutor, fleet_name: str) -> None:
    """Whatever the order in which the server hears of it, a reader that was told to look hears what follows."""
    channel = fleet_name + "-c"
    async with executor.subscribe(fleet_name + "-keep") as keep:
        assert LOOK is await anext(keep)
        for number in range(30):
            async with executor.subscribe(channel):
                pass
            async with executor.subscribe(channel) as heard:
                assert LOOK is await anext(heard)
                await executor.client.publish(channel, str(number))
                while (message := await anext(heard)) is LOOK:
                    pass
                assert str(number).encode() == message


async def test_nothing_is_left_behind(redis_url: str, fleet_name: str) -> None:
    """No subscription, no connection: also after a reader that was cancelled in the middle."""
    async with redis.asyncio.Redis.from_url(redis_url) as look:
        executor = AsyncExecutor(redis_url)
        before = {client["id"] for client in await look.client_list()}

        async def read() -> None:
            async with executor.subscribe(fleet_name) as heard:
                async for _ in heard:
                    ready.set()

        ready = asyncio.Event()
        reader = asyncio.ensure_future(read())
        await ready.wait()
        assert await subscribers(look, fleet_name) == 1
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)
        await executor.aclose()

        async def nothing() -> bool:
            """Say whether the server has noticed: it hears of a closed connection a moment later."""
            mine = {c["id"] for c in await look.client_list() if c["cmd"].endswith("subscribe")} - before
            return not mine and await subscribers(look, fleet_name) == 0

        await until(nothing)


async def test_waiting_may_be_given_up_and_begun_again(executor: AsyncExecutor, fleet_name: str) -> None:
    """A reader that looks up from time to time loses nothing."""
    async with executor.subscribe(fleet_name) as heard:
        assert LOOK is await anext(heard)
        waiting = asyncio.ensure_future(anext(heard))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await executor.client.publish(fleet_name, b"1")
        assert await anext(heard) == b"1"


async def test_a_reader_that_is_too_slow_is_told_to_look(executor: AsyncExecutor, fleet_name: str) -> None:
    """It buffers no more than so many messages, and slows nobody."""
    async with executor.subscribe(fleet_name) as slow, executor.subscribe(fleet_name) as quick:
        assert LOOK is await anext(quick)
        assert LOOK is await anext(slow)
        for number in range(BUFFER + 5):
            await executor.client.publish(fleet_name, str(number))
            assert str(number).encode() == await anext(quick)
        kept = [await anext(slow) for _ in range(5)]
        assert [LOOK, *(str(BUFFER + n).encode() for n in range(1, 5))] == kept


async def test_a_lost_connection_is_made_anew_and_says_look(real: Bench) -> None:
    """What was published meanwhile is in the log."""
    executor = real.executor
    assert isinstance(executor, AsyncExecutor)
    before = {client["id"] for client in await real.look.client_list()}
    async with executor.subscribe(real.keys.fleet) as heard:
        assert LOOK is await anext(heard)
        (mine,) = [c for c in await real.look.client_list() if c["cmd"] == "subscribe" and c["id"] not in before]
        await real.look.client_kill_filter(_id=mine["id"])
        assert LOOK is await anext(heard)
        await real.look.publish(real.keys.fleet, b"1")
        assert await anext(heard) == b"1"


async def test_a_listener_waits_for_a_server_that_is_down(own_redis: RedisServer) -> None:
    """And tells its readers to look when it is back."""
    executor = AsyncExecutor(own_redis.url)
    async with executor.subscribe("c") as heard:
        assert LOOK is await anext(heard)
        own_redis.stop()
        own_redis.start()
        assert LOOK is await anext(heard)
    await executor.aclose()


async def test_closing_the_executor_ends_its_readers(redis_url: str) -> None:
    """They are not left waiting for ever."""
    executor = AsyncExecutor(redis_url)
    async with executor.subscribe("c") as heard:
        assert LOOK is await anext(heard)
        await executor.aclose()
        assert [message async for message in heard] == []


@pytest.mark.parametrize("kind", ["redis", "fakeredis"])
def test_the_twin_without_await(kind: str, request: pytest.FixtureRequest, fleet_name: str) -> None:
    """`get` gives the next thing heard, or None when there is none in time."""
    client = fakeredis.FakeRedis()
    executor = SyncExecutor(client if kind == "fakeredis" else request.getfixturevalue("redis_url"))
    with executor.subscribe(fleet_name) as subscription:
        assert LOOK is subscription.get(60)
        executor.client.publish(fleet_name, b"1")
        assert subscription.get(60) == b"1"
        assert subscription.get(0) is None
        assert [(fleet_name.encode(), 1)] == executor.client.pubsub_numsub(fleet_name)
    # The server hears of a closed connection a moment later.
    eventually(lambda: executor.client.pubsub_numsub(fleet_name) == [(fleet_name.encode(), 0)])
    executor.close()
    client.close()


def test_the_twin_outlives_a_lost_connection(redis_url: str, fleet_name: str) -> None:
    """It connects anew within `get`, and says `LOOK`."""
    with redis.Redis.from_url(redis_url) as look:
        before = {client["id"] for client in look.client_list()}
    executor = SyncExecutor(redis_url)
    with executor.subscribe(fleet_name) as subscription:
        assert LOOK is subscription.get(60)
        (mine,) = [c for c in executor.client.client_list() if c["cmd"] == "subscribe" and c["id"] not in before]
        executor.client.client_kill_filter(_id=mine["id"])
        heard: list[Heard | None] = [subscription.get(60)]
        executor.client.publish(fleet_name, b"1")
        heard.append(subscription.get(60))
        assert heard == [LOOK, b"1"]
    executor.close()
