"""What concerns a whole fleet: live workers, the sweep's lock, threads, and the wall between two fleets."""

import pytest
from store.kit import AT_ONCE, Bench

from turnfleet.errors import UnknownRun
from turnfleet.store import Keys, commands


async def test_workers_are_known_while_they_are_alive(bench: Bench) -> None:
    """By Redis' clock; who did not say so in time, or took it back, is not listed."""
    await bench(commands.announce(bench.keys, "w1", {"models": ["a:b\n"], "tools": {}}, 60_000))
    await bench(commands.announce(bench.keys, "w2", {"models": []}, 60_000))
    await bench(commands.announce(bench.keys, "w3", {"models": ["late"]}, 0))
    assert len(await bench(commands.workers(bench.keys))) == 2
    await bench(commands.retract(bench.keys, "w2"))
    assert await bench(commands.workers(bench.keys)) == ({"models": ["a:b\n"], "tools": {}},)
    assert 0 < await bench.look.pttl(bench.keys.workers) <= 60_000


async def test_an_announcement_is_answered_with_the_time(bench: Bench) -> None:
    """The server's, so that a worker learns how far its own clock is off."""
    seconds, _ = await bench.look.time()
    told = await bench(commands.announce(bench.keys, "w1", {}, 60_000))
    assert seconds * 1000 <= told <= seconds * 1000 + 60_000


async def test_one_worker_sweeps_at_a_time(bench: Bench) -> None:
    """The lock ends by itself, and its owner may renew it."""
    assert await bench(commands.sweep_lock(bench.keys, "w1", 20_000))
    assert not await bench(commands.sweep_lock(bench.keys, "w2", 20_000))
    assert await bench(commands.sweep_lock(bench.keys, "w1", 60_000))
    assert 20_000 < await bench.look.pttl(bench.keys.sweep_lock) <= 60_000


async def test_a_thread_is_a_line(bench: Bench) -> None:
    """First come, first served; joining twice keeps the place, leaving lets the next one in."""
    keys = bench.keys
    places = [await bench(commands.thread_join(keys, "t1", run)) for run in ("a", "b", "c", "b")]
    front = [await bench(commands.thread_in_front(keys, "t1", run)) for run in ("a", "c", "stranger")]
    assert front == [(), ("a", "b"), ()]
    assert places == [0, 1, 2, 1]
    assert await bench(commands.thread_head(keys, "t1")) == "a"
    assert await bench(commands.thread_leave(keys, "t1", "b")) == "a"
    assert await bench(commands.thread_leave(keys, "t1", "a")) == "c"
    assert await bench(commands.thread_join(keys, "t1", "d")) == 1
    assert await bench(commands.thread_leave(keys, "t1", "c")) == "d"
    assert await bench(commands.thread_leave(keys, "t1", "d")) is None
    assert await bench(commands.thread_head(keys, "t1")) is None
    assert await bench.dump() == {}


async def test_two_fleets_on_one_redis_see_nothing_of_each_other(bench: Bench) -> None:
    """No run, worker, thread or sweep crosses; nor from a fleet whose name begins like the other's."""
    other = Keys(bench.keys.fleet + "-b", shards=4)
    await bench.running(lease_ms=0)
    await bench(commands.announce(bench.keys, "w1", {}, 60_000))
    await bench(commands.thread_join(bench.keys, "t1", "run"))
    before = await bench.dump()
    for shard in range(other.shards):
        assert ((swept := await bench(commands.sweep(other, shard, AT_ONCE))).offers, swept.lost) == ((), 0)
        assert (await bench(commands.listing(other, shard))).rows == ()
    assert await bench(commands.workers(other)) == ()
    assert await bench(commands.thread_head(other, "t1")) is None
    assert await bench(commands.sweep_lock(other, "w9", 1_000))
    with pytest.raises(UnknownRun):
        await bench(commands.status(other, "run"))
    await bench.look.delete(other.sweep_lock)
    assert before == await bench.dump()
