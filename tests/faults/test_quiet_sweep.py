"""After an outage nobody is taken a run away for one lease: owners who were cut off renew first (DESIGN 1, "Lease")."""

import asyncio
from contextlib import aclosing
from typing import Any, TypeVar

import pytest
import redis.asyncio
from store.kit import NEVER_LATE, Bench
from support.redis_server import RedisServer

from turnfleet.errors import FleetUnavailable
from turnfleet.store import Command, Keys, commands
from turnfleet.store.executor import AsyncExecutor
from turnfleet.store.records import SweepPolicy, Swept
from turnfleet_worker.outage import OutageWatch, ServerClocks
from turnfleet_worker.sweep import Sweeper

T = TypeVar("T")
LEASE = SweepPolicy(quiet_ms=600_000, reoffer_after_ms=600_000)
"""A lease of ten minutes: what holds for one lease holds for all of a test."""


@pytest.fixture
async def real(redis_url: str, fleet_name: str) -> Any:
    """Give a bench on the real server."""
    async with redis.asyncio.Redis.from_url(redis_url) as look, aclosing(AsyncExecutor(redis_url)) as executor:
        yield Bench(fleet_name, executor, look)


async def sweep(bench: Bench, policy: SweepPolicy, sent_ms: int | None = NEVER_LATE) -> Swept:
    """Sweep the shard of the run."""
    return await bench(commands.sweep(bench.keys, bench.keys.shard("run"), policy, sent_ms=sent_ms))


async def server_seen(bench: Bench, seen: str | None, since: int) -> str:
    """Let the shard remember that it saw this server (None: the one that answers) since then; give the key."""
    info: dict[str, Any] = await bench.look.info("server")
    key = f"{bench.keys.prefix(bench.keys.shard('run'))}server"
    await bench.look.set(key, f"{seen or info['run_id']}|{since}", px=86_400_000)
    return key


async def test_a_server_that_took_over_takes_no_lease(real: Bench) -> None:
    """Another server answers than the shard has seen: from now on, for one lease, leases are left alone."""
    claim = await real.running(lease_ms=0)
    # The policy's lease is shorter than the server's uptime: that it started long ago is no reason to wait.
    await asyncio.sleep(1.1)
    policy = SweepPolicy(quiet_ms=1_000)
    await server_seen(real, "f" * 40, 0)
    assert (await sweep(real, policy)).lost == 0
    await real(commands.beat(real.keys, [claim], lease_ms=60_000))
    await server_seen(real, None, 0)
    await real(commands.beat(real.keys, [claim], lease_ms=0))
    assert (await sweep(real, policy)).lost == 1


async def test_what_the_shard_remembers_has_a_ttl_and_is_kept_fresh(real: Bench) -> None:
    """A day without any sweep and it is forgotten; a server that nobody remembers is waited for no longer."""
    await real.create("run")
    await sweep(real, LEASE)
    key = await server_seen(real, None, 0)
    await real.look.pexpire(key, 1_000)
    await sweep(real, LEASE)
    assert await real.look.pttl(key) > 80_000_000
    content: Any = await real.look.get(key)
    assert content.endswith(b"|0")


async def test_a_server_that_restarted_takes_no_lease(own_redis: RedisServer, fleet_name: str) -> None:
    """Its data is old, its leases are over, and their owners are on their way."""
    async with redis.asyncio.Redis.from_url(own_redis.url) as look, aclosing(AsyncExecutor(own_redis.url)) as executor:
        bench = Bench(fleet_name, executor, look)
        claim = await bench.running(lease_ms=0)
        own_redis.restart()
        assert (await bench.status()).state == "running"
        assert (await sweep(bench, LEASE)).lost == 0
        await bench(commands.step(bench.keys, claim, seq=1))


@pytest.mark.parametrize("sent", ["long ago", None])
async def test_a_sweep_that_arrives_late_does_nothing(real: Bench, sent: str | None) -> None:
    """A server that hung goes on with what lay in its sockets. The sender's time is taken from the server's answers."""
    claim = await real.running(lease_ms=0)
    await server_seen(real, None, 0)
    policy = SweepPolicy(quiet_ms=1_000)
    seen = await sweep(real, policy, None)
    swept = await sweep(real, policy, None if sent is None else seen.now_ms - 300)
    assert (swept.late, swept.lost, swept.offers) == (True, 0, ())
    await real(commands.step(real.keys, claim, seq=1))


class Unanswered(AsyncExecutor):
    """A store that does not answer while it is `away`."""

    away = False

    async def execute(self, command: Command[T]) -> T:
        """Execute, or not."""
        if self.away:
            raise FleetUnavailable("away")
        return await super().execute(command)


class NoBroker:
    """Takes offers and has none waiting."""

    async def publish(self, offers: Any) -> None:
        """Take them."""

    async def oldest(self, queues: Any) -> dict[Any, Any]:
        """Know of none."""
        return {}


async def test_a_sweeper_that_was_cut_off_leaves_leases_alone(redis_url: str, fleet_name: str) -> None:
    """The server did not restart, so only those who could not reach it know; one that could takes the run."""
    async with aclosing(Unanswered(redis_url)) as executor:
        bench = Bench(fleet_name, executor, executor.client)
        cut_off, other = (_sweeper(executor, bench.keys) for _ in range(2))
        await bench.running(lease_ms=0)
        executor.away = True
        with pytest.raises(FleetUnavailable):
            await cut_off.sweep_once()
        executor.away = False
        await cut_off.sweep_once()
        assert (await bench.status()).state == "running"
        await bench.look.zadd(f"{bench.keys.prefix(bench.keys.shard('run'))}due", {"run": 0})
        await other.sweep_once()
        assert (await bench.status()).state == "queued"


def _sweeper(executor: AsyncExecutor, keys: Keys) -> Sweeper:
    """Give a sweeper that knows how long a lease is; the script does not, for the tests' server is young itself."""
    parts: Any = {"offers": NoBroker(), "turns": None, "fits": lambda _spec: False}
    sweeper = Sweeper(executor, keys, owner="w", every_seconds=1, policy=SweepPolicy(quiet_ms=60_000), **parts)
    sweeper._policy = SweepPolicy()
    return sweeper


def test_an_outage_is_noticed_by_an_error_or_by_a_late_answer() -> None:
    """From the first answer after it on, one lease."""
    now = [0.0]
    watch = OutageWatch(10, lambda: now[0])
    with watch.asking():
        now[0] += 2
    assert watch.hold_seconds() == 0
    with watch.asking():
        now[0] += 3
    assert watch.hold_seconds() == 10
    now[0] += 11
    assert watch.hold_seconds() == 0
    with pytest.raises(FleetUnavailable), watch.asking():
        raise FleetUnavailable("away")
    now[0] += 1_000
    with watch.asking():
        pass
    assert watch.hold_seconds() == 10


def test_a_server_s_clock_goes_on_between_its_answers() -> None:
    """Each shard has a server of its own, perhaps, and so a clock of its own."""
    now = [5.0]
    clocks = ServerClocks(lambda: now[0])
    assert clocks.now_ms(0) is None
    clocks.heard(0, 1_000)
    now[0] += 2.5
    assert (clocks.now_ms(0), clocks.now_ms(1)) == (3_500, None)
    assert Keys("x").shards > 1
