"""What must not be lost waits for a replica, where there is one; a replica that hangs stops nobody (DESIGN 2)."""

import logging
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from typing import Any

import pytest
import redis
from store.kit import APPROVE, Bench, approval
from support.redis_server import RedisServer
from support.waiting import eventually

from turnfleet.store import commands
from turnfleet.store.executor import AsyncExecutor
from turnfleet.store.records import NewDecision
from turnfleet.store.replicas import LOOK_SECONDS, SHORT_LOOK_SECONDS, Replicas


@pytest.fixture
def replica(own_redis: RedisServer) -> Iterator[RedisServer]:
    """Give a replica of this test's server, in step with it."""
    server = RedisServer("--replicaof", "127.0.0.1", str(own_redis.port))
    try:
        with redis.Redis.from_url(own_redis.url) as master, redis.Redis(port=server.port) as client:
            master.config_set("repl-diskless-sync-delay", "0")
            server.start()

            def at_rest() -> bool:
                state = client.info()
                return state["master_link_status"] == "up" and not state["aof_rewrite_in_progress"]

            eventually(at_rest, what="the replica is in step")
            eventually(lambda: master.wait(1, 1_000) == 1, what="the replica confirms writes")
            master.config_resetstat()
        yield server
    finally:
        server.kill()  # asked kindly while it writes its first append-only file, a replica stays
        server.close()


@pytest.fixture
async def bench(own_redis: RedisServer, fleet_name: str) -> AsyncIterator[Bench]:
    """Give a bench on the server that has the replica."""
    async with aclosing(AsyncExecutor(own_redis.url)) as executor:
        yield Bench(fleet_name, executor, executor.client)


async def waits(bench: Bench) -> int:
    """Give how often the server was told to wait."""
    stats: dict[str, Any] = await bench.look.info("commandstats")
    return int(stats.get("cmdstat_wait", {}).get("calls", 0))


async def test_starts_receipts_and_decisions_wait_and_nothing_else_does(
    bench: Bench, replica: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first durable command also asks whether there is a replica; from then on each one waits."""
    # On a busy machine a replica in the best of health may need longer than half a second.
    monkeypatch.setattr("turnfleet.store.replicas._WAIT", ("WAIT", 1, 60_000))
    claim = await bench.running()
    await bench(commands.step(bench.keys, claim, seq=1, entries=[{"k": "start"}], starts_effect=True))
    seen = [await waits(bench)]
    await bench(commands.step(bench.keys, claim, seq=2, entries=[{"k": "start"}], starts_effect=True))
    seen.append(await waits(bench))
    await bench(commands.step(bench.keys, claim, seq=3, entries=[{"k": "receipt"}]))
    seen.append(await waits(bench))
    await bench(commands.step(bench.keys, claim, seq=4, entries=[{"k": "turn"}]))
    await bench(commands.beat(bench.keys, [claim], lease_ms=1000))
    seen.append(await waits(bench))
    await bench.paused(run_id="other")
    await bench(commands.resume(bench.keys, "other", decisions=[NewDecision(approval().id, APPROVE)], by="alice"))
    seen.append(await waits(bench))
    assert seen == [0, 1, 2, 2, 3]


async def test_a_replica_that_hangs_is_waited_for_once(
    bench: Bench, replica: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Then it is logged that a failover could lose writes, and the runs go on without it for a while."""
    claim = await bench.running()
    await bench(commands.step(bench.keys, claim, seq=1, entries=[{"k": "receipt"}]))
    assert replica.process is not None
    replica.process.send_signal(signal.SIGSTOP)
    try:
        with caplog.at_level(logging.WARNING):
            for seq in (2, 3, 4):
                await bench(commands.step(bench.keys, claim, seq=seq, entries=[{"k": "receipt"}]))
    finally:
        replica.process.send_signal(signal.SIGCONT)
    assert await waits(bench) == 1
    assert ["no replica confirmed" in record.message for record in caplog.records] == [True]
    assert len(await bench.journal()) == 4


async def test_a_server_without_replicas_is_never_told_to_wait(bench: Bench) -> None:
    """It costs one look."""
    claim = await bench.running()
    for seq in (1, 2, 3):
        await bench(commands.step(bench.keys, claim, seq=seq, entries=[{"k": "receipt"}]))
    assert await waits(bench) == 0


def test_when_the_server_is_asked_again() -> None:
    """Now and then; sooner after a replica that did not confirm. One that refuses the question has none."""
    keys: Any = Bench("x", AsyncExecutor("redis://nowhere"), None).keys  # type: ignore[arg-type]
    durable = [commands.resume(keys, "run", decisions=[NewDecision("i1", APPROVE)], by="alice")]
    look, wait = ("INFO", "replication"), ("WAIT", 1, 500)
    replicas = Replicas()
    assert replicas.words([commands.status(keys, "run")], 0) == []
    assert replicas.words(durable, 0) == [look]
    replicas.take([look], [{"connected_slaves": 1}], 0)
    assert replicas.words(durable, 1) == [wait]
    replicas.take([wait], [1], 1)
    assert replicas.words(durable, LOOK_SECONDS) == [wait, look]
    replicas.take([wait, look], [0, {"connected_slaves": 1}], LOOK_SECONDS)
    assert replicas.words(durable, LOOK_SECONDS + 1) == []
    assert replicas.words(durable, LOOK_SECONDS + SHORT_LOOK_SECONDS) == [look]
    replicas.take([look], [redis.ResponseError("no INFO for you")], 100)
    assert replicas.words(durable, 101) == []
