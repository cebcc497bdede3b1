"""A fleet that is away is an error within seconds: never a hang, and never a secret in the text (DESIGN 1)."""

import asyncio
import socket
from collections.abc import Callable, Iterator

import pytest
from producer.kit import PLAN, AnyFleet, Stage, do, indexes
from support.ports import free_port
from support.redis_server import RedisServer
from support.waiting import eventually

from turnfleet import AsyncFleet, FleetUnavailable

PATIENCE = 60.0
"""Seconds after which the test calls it a hang; the clients' own limit is far below."""


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Give a port that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture(params=["dead", "silent"])
def away(request: pytest.FixtureRequest) -> str:
    """Give the URL of a server that refuses, and of one that never answers."""
    port = free_port() if request.param == "dead" else request.getfixturevalue("silent_port")
    return f"redis://:hunter2@127.0.0.1:{port}/0"


async def test_a_redis_that_is_away_is_an_error_before_anything_is_recorded(
    another: Callable[..., AnyFleet], away: str
) -> None:
    """The run id is there to try again with, and surely nothing was enqueued."""
    fleet = another(url=away, timeout=0.5, reconnect_timeout=0.5)
    with pytest.raises(FleetUnavailable) as lost:
        await asyncio.wait_for(do(fleet.enqueue, PLAN, "hi", run_id="run-1"), PATIENCE)
    assert (lost.value.run_id, lost.value.maybe_enqueued) == ("run-1", False)
    assert "hunter2" not in str(lost.value)
    assert not isinstance(lost.value.__cause__, FleetUnavailable), "a traceback tells it once"
    with pytest.raises(FleetUnavailable):
        await asyncio.wait_for(do(fleet.run("run-1").status), PATIENCE)
    with pytest.raises(FleetUnavailable):
        await asyncio.wait_for(do(fleet.run("run-1").result), PATIENCE)
    with pytest.raises(FleetUnavailable):
        await asyncio.wait_for(indexes(fleet.run("run-1")), PATIENCE)


async def test_a_broker_that_is_away_may_have_left_a_run(
    another: Callable[..., AnyFleet], away: str, stage: Stage
) -> None:
    """The record exists by then: `maybe_enqueued` says so, for one run and for many."""
    fleet = another(broker_url=away, timeout=2)
    with pytest.raises(FleetUnavailable) as lost:
        await asyncio.wait_for(do(fleet.enqueue, PLAN, "hi", run_id="run-1"), PATIENCE)
    assert (lost.value.run_id, lost.value.maybe_enqueued) == ("run-1", True)
    assert "hunter2" not in str(lost.value)
    with pytest.raises(FleetUnavailable) as lost:
        await asyncio.wait_for(do(fleet.enqueue_many, [(PLAN, "hi")]), PATIENCE)
    assert lost.value.maybe_enqueued is True
    assert (await do(fleet.run("run-1").status)).state == "queued"


async def test_an_amqp_broker_that_is_away_is_an_error_too(another: Callable[..., AnyFleet], silent_port: int) -> None:
    """RabbitMQ is kombu's choice; its connections are bounded as well."""
    for port in (free_port(), silent_port):
        fleet = another(broker_url=f"amqp://guest:hunter2@127.0.0.1:{port}//", timeout=0.5)
        with pytest.raises(FleetUnavailable) as lost:
            await asyncio.wait_for(do(fleet.enqueue, PLAN, "hi"), PATIENCE)
        assert "hunter2" not in str(lost.value)


async def test_a_client_survives_a_restart_of_its_server(
    another: Callable[..., AnyFleet], own_redis: RedisServer, own_stage: Stage
) -> None:
    """Kept connections are stale then; the next call makes new ones."""
    fleet = another(url=own_redis.url)
    await do(fleet.enqueue, PLAN, "hi", run_id="a")
    await asyncio.to_thread(own_redis.restart)
    await do(fleet.enqueue, PLAN, "hi", run_id="b")
    assert own_stage.published() == ["a", "b"]


async def test_publishers_of_one_client_do_not_wait_for_each_other(fleet: AnyFleet, stage: Stage) -> None:
    """Fifty at once: every message arrives, once."""
    ids = [f"run-{place}" for place in range(50)]
    await asyncio.gather(*(do(fleet.enqueue, PLAN, "hi", run_id=each) for each in ids))
    assert sorted(stage.published()) == sorted(ids)


async def test_a_silent_broker_does_not_stop_the_event_loop(stage: Stage, silent_port: int) -> None:
    """Celery publishes blocking, so it does it in a thread: the loop serves others meanwhile."""
    async with AsyncFleet(
        stage.url, name=stage.fleet, broker_url=f"redis://127.0.0.1:{silent_port}/0", timeout=3
    ) as fleet:
        enqueueing = asyncio.ensure_future(fleet.enqueue(PLAN, "hi", run_id="run-1"))
        await asyncio.to_thread(eventually, lambda: stage.dump("run-1")["record"], what="the record")
        assert (await fleet.run("run-1").status()).state == "queued"
        assert not enqueueing.done()
        with pytest.raises(FleetUnavailable):
            await enqueueing
