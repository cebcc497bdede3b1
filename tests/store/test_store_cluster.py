"""A real cluster: commands go where their key is, slots may move under them, readers follow, and one node may die."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from typing import Any

import pytest
from store.kit import Bench, event, new_run
from support.redis_cluster import RedisCluster, tell
from support.redis_server import RedisServer
from support.waiting import eventually

from turnfleet.errors import FleetUnavailable, UnknownRun
from turnfleet.store import commands
from turnfleet.store.executor import AsyncExecutor, SyncExecutor
from turnfleet.store.listener import LOOK

pytestmark = pytest.mark.slow


@pytest.fixture
async def awaiting(cluster: RedisCluster) -> AsyncIterator[AsyncExecutor]:
    """Give an executor on the session's cluster."""
    async with aclosing(AsyncExecutor(cluster.url, timeout=3)) as executor:
        yield executor


@pytest.fixture
def on(awaiting: AsyncExecutor, fleet_name: str) -> Bench:
    """Give a bench over it; what a bench looks behind with is not asked here."""
    nobody: Any = None
    return Bench(fleet_name, awaiting, nobody)


@pytest.fixture
def plain(cluster: RedisCluster) -> Iterator[SyncExecutor]:
    """Give the same without await."""
    executor = SyncExecutor(cluster.url, timeout=3)
    yield executor
    executor.close()


def sharded(server: RedisServer, channel: str) -> int:
    """Return how many connections follow a sharded channel at a node."""
    return int(tell(server, "PUBSUB", "SHARDNUMSUB", channel)[1])


async def test_runs_lie_on_every_node_and_are_found(on: Bench, cluster: RedisCluster) -> None:
    """One fleet spans the nodes; a page of all shards comes from all of them."""
    for number in range(20):
        await on.create(f"r{number}")
    assert len({cluster.node_of(on.keys.record(f"r{number}")).port for number in range(20)}) == 3
    pages = [await on(commands.listing(on.keys, shard)) for shard in range(on.keys.shards)]
    assert sum(len(page.rows) for page in pages) == 20


async def test_events_are_heard_at_the_node_that_has_the_run(
    on: Bench, awaiting: AsyncExecutor, plain: SyncExecutor, cluster: RedisCluster
) -> None:
    """Live, by both executors; no other node carries them; and nothing is left behind."""
    claim = await on.running()
    channel = on.keys.events("run")
    owner = cluster.node_of(channel)
    with plain.subscribe(channel) as other:
        async with awaiting.subscribe(channel) as heard:
            assert await asyncio.wait_for(anext(heard), 60) is LOOK
            assert await asyncio.to_thread(other.get, 60) is LOOK
            assert [sharded(server, channel) for server in cluster.masters] == [
                2 if server is owner else 0 for server in cluster.masters
            ]
            await on(commands.step(on.keys, claim, seq=1, events=[event("run", 0, "usage")]))
            message = await asyncio.wait_for(anext(heard), 60)
            assert message is not LOOK
            assert b'"usage"' in message
            assert await asyncio.to_thread(other.get, 60) == message
    eventually(lambda: [sharded(server, channel) for server in cluster.masters] == [0, 0, 0])


def keys_of(cluster: RedisCluster, on: Bench) -> list[bytes]:
    """Give the keys of this test's fleet; those of others come and go."""
    return sorted(key for key in cluster.keys() if key.startswith(f"{{{on.keys.fleet}:".encode()))  # noqa: SIM118 - no dict


async def test_a_slot_that_moves_is_refused_whole_and_waited_for(
    on: Bench, plain: SyncExecutor, cluster: RedisCluster
) -> None:
    """While its keys lie on two nodes no script runs on the half of them; what was asked for is done afterwards."""
    claim = await on.running()
    record = on.keys.record("run")
    source, target = cluster.begin_move(record)
    assert cluster.move_keys(record, source, target, count=2) == 2
    before = keys_of(cluster, on)
    for command in (commands.create(on.keys, new_run("run")), commands.status(on.keys, "run")):
        with pytest.raises(FleetUnavailable, match="takes no writes now"):
            await asyncio.to_thread(plain.execute, command)
    step = asyncio.ensure_future(on(commands.step(on.keys, claim, seq=1, events=[event("run", 0, "usage")])))
    assert keys_of(cluster, on) == before
    cluster.end_move(record, source, target)
    await step
    assert await on.kinds() == ["usage"]
    assert plain.execute(commands.status(on.keys, "run")).state == "running"
    assert cluster.node_of(record) is target


async def test_unwaited_writes_stay_in_order_while_their_slot_moves(on: Bench, cluster: RedisCluster) -> None:
    """No step overtakes another on its way from one node to the other."""
    claim = await on.running()
    record = on.keys.record("run")
    written = 0

    async def write() -> None:
        nonlocal written
        for seq in range(1, 301):
            await asyncio.gather(
                *(
                    on(commands.step(on.keys, claim, seq=number, events=[event("run", number - 1, "usage")]))
                    for number in range(seq * 3 - 2, seq * 3 + 1)
                )
            )
            written = seq

    async def move() -> None:
        source, target = await asyncio.to_thread(cluster.begin_move, record)
        await asyncio.to_thread(cluster.end_move, record, source, target)

    writing = asyncio.ensure_future(write())
    for share in (50, 150):
        await asyncio.to_thread(eventually, lambda least=share: written >= least)
        await move()
    await writing
    assert len(await on.kinds()) == 900


async def test_readers_follow_a_slot_that_moves(
    on: Bench, awaiting: AsyncExecutor, plain: SyncExecutor, cluster: RedisCluster
) -> None:
    """The node lets them go; they are told to look, at the node that has the run now, and hear what comes there."""
    claim = await on.running()
    channel = on.keys.events("run")
    with plain.subscribe(channel) as other:
        async with awaiting.subscribe(channel) as heard:
            assert await asyncio.wait_for(anext(heard), 60) is LOOK
            assert await asyncio.to_thread(other.get, 60) is LOOK
            source, target = await asyncio.to_thread(cluster.begin_move, channel)
            await asyncio.to_thread(cluster.end_move, channel, source, target)
            assert await asyncio.wait_for(anext(heard), 60) is LOOK
            assert await asyncio.to_thread(other.get, 60) is LOOK
            assert (sharded(source, channel), sharded(target, channel)) == (0, 2)
            await on(commands.step(on.keys, claim, seq=1, events=[event("run", 0, "usage")]))
            assert await asyncio.wait_for(anext(heard), 60) is not LOOK
            assert await asyncio.to_thread(other.get, 60) is not None


async def test_one_node_that_dies_takes_its_own_runs_along_and_gives_them_back(fleet_name: str) -> None:
    """Others go on meanwhile; its replica takes over, and commands and readers find it by themselves."""
    with RedisCluster(replicas=True) as cluster:
        executor, plain = AsyncExecutor(cluster.url, timeout=3), SyncExecutor(cluster.url, timeout=3)
        nobody: Any = None
        bench = Bench(fleet_name, executor, nobody)
        names = [f"r{number}" for number in range(12)]
        for name in names:
            await bench.create(name)
        dying = cluster.masters[0]
        lost = {name for name in names if cluster.node_of(bench.keys.record(name)) is dying}
        assert 0 < len(lost) < len(names)
        channel = bench.keys.events(min(lost))
        async with executor.subscribe(channel) as heard:
            assert await asyncio.wait_for(anext(heard), 60) is LOOK
            await asyncio.to_thread(eventually, lambda: cluster.caught_up(dying), what="the replica is in step")
            heir = cluster.replicas[0].process
            assert heir is not None
            heir.send_signal(signal.SIGSTOP)  # so that it does not take over before all have looked
            dying.kill()
            many = await executor.execute_many([commands.status(bench.keys, name) for name in names])
            assert {name for name, each in zip(names, many, strict=True) if isinstance(each, FleetUnavailable)} == lost
            many = plain.execute_many([commands.status(bench.keys, name) for name in names])
            assert {name for name, each in zip(names, many, strict=True) if isinstance(each, FleetUnavailable)} == lost
            heir.send_signal(signal.SIGCONT)

            def there() -> bool:
                try:
                    return plain.execute(commands.status(bench.keys, min(lost))).state == "queued"
                except FleetUnavailable:
                    return False

            await asyncio.to_thread(eventually, there, what="the replica serves")
            assert (await bench.status(min(lost))).state == "queued"
            claim = await bench.claim(min(lost))
            assert await asyncio.wait_for(anext(heard), 60) is LOOK
            await bench(commands.step(bench.keys, claim, seq=1, events=[event(claim.run_id, 0, "usage")]))
            assert await asyncio.wait_for(anext(heard), 60) is not LOOK
        with pytest.raises(UnknownRun):
            await bench.status("never")
        await executor.aclose()
        plain.close()
