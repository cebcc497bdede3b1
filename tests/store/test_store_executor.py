"""Executors: one answer or one named error, in time, and without a secret in it."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any

import fakeredis
import pytest
import redis
from redis.exceptions import BusyLoadingError, ConnectionError, NoScriptError, TimeoutError  # noqa: A004 - redis' names
from store.kit import Bench, ending, event, new_run
from support.ports import free_port
from support.redis_server import RedisServer

from turnfleet.errors import FleetUnavailable, RunIdConflict, StoreError, UnknownRun
from turnfleet.store import Keys, calls, commands
from turnfleet.store.executor import AsyncExecutor, SyncExecutor
from turnfleet.store.records import Created
from turnfleet.store.scripts import names, script

KEYS = Keys("executor")


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Give a port that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


@pytest.mark.parametrize("port", ["dead", "silent"])
async def test_a_redis_that_does_not_answer_is_unavailable_in_time(port: str, silent_port: int) -> None:
    """Neither a dead port nor a silent one hangs; the error names the run and the place, and no password."""
    number = free_port() if port == "dead" else silent_port
    url = f"redis://user:s3cret@127.0.0.1:{number}/0"
    awaiting, plain = AsyncExecutor(url, timeout=0.2), SyncExecutor(url, timeout=0.2)
    with pytest.raises(FleetUnavailable) as first:
        await awaiting.execute(commands.create(KEYS, new_run("r1")))
    with pytest.raises(FleetUnavailable) as second:
        await asyncio.to_thread(plain.execute, commands.create(KEYS, new_run("r1")))
    for error in (first.value, second.value):
        assert error.run_id == "r1"
        assert f"127.0.0.1:{number}" in str(error)
        assert "s3cret" not in str(error)
    await awaiting.aclose()
    plain.close()


async def test_commands_asked_for_at_once_stay_in_order(real: Bench) -> None:
    """Unwaited writes of one run cannot overtake each other (DESIGN 9)."""
    claim = await real.running()
    steps = [real(commands.step(real.keys, claim, seq=n + 1, events=[event("run", n, "usage")])) for n in range(600)]
    await asyncio.gather(*steps)
    assert len(await real.kinds()) == 600


async def test_many_commands_answer_each_for_itself(bench: Bench) -> None:
    """An error stands in its command's place; the others are done."""
    await bench.create("taken")
    many = [new_run("a"), new_run("taken", digest="x"), *(new_run(f"r{n}") for n in range(300))]
    answer: Any = bench.executor.execute_many([commands.create(bench.keys, new) for new in many])
    first, second, *rest = await answer if asyncio.iscoroutine(answer) else answer
    assert isinstance(second, RunIdConflict)
    assert [Created(existed=False, state="queued", publish=True)] * 301 == [first, *rest]


async def test_an_executor_goes_on_after_the_server_restarted(own_redis: RedisServer) -> None:
    """Scripts and connections are gone; the data is not, and the caller notices nothing."""
    awaiting, plain = AsyncExecutor(own_redis.url), SyncExecutor(own_redis.url)
    await awaiting.execute(commands.create(KEYS, new_run("r1")))
    plain.execute(commands.create(KEYS, new_run("r2")))
    own_redis.restart()
    assert (await awaiting.execute(commands.status(KEYS, "r1"))).run_id == "r1"
    assert plain.execute(commands.status(KEYS, "r2")).run_id == "r2"
    await awaiting.aclose()
    plain.close()


async def test_scripts_that_were_flushed_are_loaded_again(real: Bench, redis_url: str) -> None:
    """Also in the middle of many commands."""
    plain = SyncExecutor(redis_url)
    await real.create()
    plain.execute(commands.status(real.keys, "run"))
    await real.look.script_flush()
    both = [commands.status(real.keys, "run"), commands.outcome(real.keys, "run")]
    assert (await real.status()).state == "queued"
    await real.look.script_flush()
    assert [getattr(each, "run_id", None) for each in plain.execute_many(both)] == ["run", "run"]
    plain.close()


async def test_a_full_server_refuses_new_work_and_saves_what_was_done(own_redis: RedisServer) -> None:
    """Steps, heartbeats and ends carry `allow-oom`; new runs and claims are refused before anything is written."""
    executor = AsyncExecutor(own_redis.url)
    bench = Bench("oom", executor, executor.client)
    claim = await bench.running()
    await bench.create("waiting")
    before = await bench.dump()
    await bench.look.config_set("maxmemory", "1")
    with pytest.raises(FleetUnavailable, match="out of memory"):
        await bench.create("another")
    with pytest.raises(FleetUnavailable, match="out of memory"):
        await bench.claim("waiting")
    assert before == await bench.dump()
    await bench(commands.beat(bench.keys, [claim], lease_ms=60_000))
    await bench(commands.step(bench.keys, claim, seq=1, entries=[{"k": "receipt"}], events=[event("run", 0, "usage")]))
    await bench(commands.finish(bench.keys, claim, seq=2, ending=ending("run", 1)))
    await bench(commands.cancel(bench.keys, "waiting", reason=""))
    await bench.sweep()
    assert (await bench.status()).state == "completed"
    await bench.check()
    await executor.aclose()


async def test_a_server_without_its_replicas_is_away_and_not_at_fault(own_redis: RedisServer) -> None:
    """With `min-replicas-to-write`: nothing was done, and the same is taken as soon as a replica is in step again."""
    executor = AsyncExecutor(own_redis.url)
    bench = Bench("lone", executor, executor.client)
    await bench.create("waiting")
    before = await bench.dump()
    await bench.look.config_set("min-replicas-to-write", "1")
    with pytest.raises(FleetUnavailable, match=r"takes no writes now \(run 'waiting'\): NOREPLICAS") as away:
        await bench.claim("waiting")
    assert away.value.run_id == "waiting"
    assert before == await bench.dump()
    await bench.look.config_set("min-replicas-to-write", "0")
    await bench.claim("waiting")
    await executor.aclose()


async def test_an_engine_that_knows_no_flags_gets_the_plain_scripts() -> None:
    """Fakeredis' Lua chokes on the first line that carries them; the executor finds out by itself."""
    client = fakeredis.FakeAsyncRedis()
    with pytest.raises(redis.ResponseError):
        await client.eval(script("create").texts["flagged"], 0)
    executor = AsyncExecutor(client)
    assert (await executor.execute(commands.create(KEYS, new_run()))).publish
    await executor.aclose()
    await client.aclose()


def test_every_script_s_flags_are_its_first_line() -> None:
    """What is left without them is the same program."""
    for name in names():
        first, rest = script(name).texts["flagged"].split("\n", 1)
        assert first.startswith("#!lua")
        assert rest == script(name).texts["plain"]


async def test_a_set_up_that_does_not_fit_is_a_store_error(real: Bench) -> None:
    """What Redis refuses is no outage; the text holds Redis' reason and no argument."""
    await real.look.set(real.keys.record("run"), "not a hash")
    with pytest.raises(StoreError, match="WRONGTYPE") as refusal:
        await real.create(plan={"name": "top secret"})
    assert "secret" not in str(refusal.value)
    await real.look.delete(real.keys.record("run"))


async def test_a_cancelled_caller_leaves_the_others_their_answers(real: Bench) -> None:
    """Who gives up waiting takes nobody along."""
    await real.create()
    gone = asyncio.ensure_future(real(commands.status(real.keys, "run")))
    kept = asyncio.ensure_future(real(commands.status(real.keys, "run")))
    await asyncio.sleep(0)
    gone.cancel()
    assert (await kept).run_id == "run"
    assert gone.cancelled()


async def test_what_was_given_up_before_it_left_is_not_done(real: Bench) -> None:
    """A caller that is cancelled at once has enqueued nothing."""
    given_up = asyncio.ensure_future(real(commands.create(real.keys, new_run())))
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.gather(given_up, return_exceptions=True)
    with pytest.raises(UnknownRun):
        await real.status()


async def test_a_closed_executor_says_so(redis_url: str) -> None:
    """It does not quietly connect again."""
    executor = AsyncExecutor(redis_url)
    await executor.aclose()
    with pytest.raises(StoreError, match="closed"):
        await executor.execute(commands.status(KEYS, "run"))


async def test_threads_may_share_an_executor_without_await(redis_url: str, fleet_name: str) -> None:
    """Each call takes a connection of its own."""
    executor, keys = SyncExecutor(redis_url), Keys(fleet_name)
    made = threading.Barrier(4)

    def create(number: int) -> bool:
        made.wait()
        return executor.execute(commands.create(keys, new_run(f"r{number}"))).existed

    assert await asyncio.gather(*(asyncio.to_thread(create, n) for n in range(4))) == [False] * 4
    executor.close()


def test_only_what_may_be_repeated_is_sent_again() -> None:
    """A lost connection may have lost the reply only: a cancel done twice would answer otherwise."""
    cancel, look = commands.cancel(KEYS, "r", reason=""), commands.status(KEYS, "r")
    lost, late = ConnectionError("lost"), TimeoutError("late")
    for command, result, again in (
        (look, lost, True), (cancel, lost, False), (look, late, False), (look, [b"unknown"], False),
        (cancel, NoScriptError(), True), (cancel, BusyLoadingError(), True),
    ):  # fmt: skip
        assert again == calls.worth_repeating(command, result)


def test_sending_again_keeps_order_and_ends() -> None:
    """Loading servers are waited for until the limit; lost connections are tried twice more, no longer."""
    one, two, three = (commands.status(KEYS, name) for name in "abc")
    sending = calls.Sending([one, two, three], limit=10.0)
    assert sending.take([BusyLoadingError(), "answer", BusyLoadingError()], 1.0) == calls.UNREADY_PAUSE_SECONDS
    assert [one, three] == sending.pending
    lost = ConnectionError("lost")
    assert [sending.take([lost, lost], 2.0) for _ in range(3)] == [0.0, 0.0, None]
    assert [lost, "answer", lost] == sending.results
    assert calls.Sending([one], limit=1.0).take([BusyLoadingError()], 1.0) is None


def test_a_failover_costs_a_command_its_connection_and_its_scripts() -> None:
    """Two tries find no master; the third finds one without our scripts, and is not the last."""
    sending = calls.Sending([commands.status(KEYS, "r")], limit=10.0)
    lost, unloaded = ConnectionError("lost"), NoScriptError("No matching script")
    assert [sending.take([each], 1.0) for each in (lost, lost, unloaded, ["answer"])] == [0.0, 0.0, 0.0, None]
    assert sending.results == [["answer"]]
    forgetful = calls.Sending([commands.status(KEYS, "r")], limit=10.0)
    assert [forgetful.take([unloaded], 1.0) for _ in range(3)] == [0.0, 0.0, None]
    # It did nothing, so whoever waits for the server may ask again: no run is let go for it.
    assert isinstance(calls.translate(unloaded, "r", "here"), FleetUnavailable)


async def test_an_unknown_run_is_not_taken_for_an_outage(bench: Bench) -> None:
    """Errors of ours pass through as they are."""
    with pytest.raises(UnknownRun):
        await bench.status("nobody")
