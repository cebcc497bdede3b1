"""The broker goes away and comes back: the worker stays, and nothing runs twice.

Two faults of Celery 5.7 with late acknowledgement are kept out here: a worker that held an unacknowledged message
when Redis died ended with an AttributeError, and a task that ran through a lost connection was started a second time.
"""

from collections.abc import Callable
from typing import Any

import pytest
from pool.bench import Bench, EventWatch
from support.redis_server import RedisServer
from support.waiting import eventually
from support.worker_process import START_SECONDS


def cut_every_connection(server: RedisServer, bench: Bench) -> None:
    """Have Redis close all connections but the one that asks."""
    assert server.process is not None
    for kind in ("normal", "pubsub"):
        bench.broker.client_kill_filter(_type=kind, skipme=True)


def restart(server: RedisServer, _: Bench) -> None:
    """Restart Redis with its data."""
    server.restart()


def crash(server: RedisServer, _: Bench) -> None:
    """Kill Redis and start it again."""
    server.kill()
    server.start()


def down_for_a_while(server: RedisServer, bench: Bench) -> None:
    """Stop Redis until the worker has noticed, then start it."""
    server.stop()
    bench.open("short")
    bench.wait_for("ended", run="short")
    server.start()


Loss = Callable[[RedisServer, Bench], Any]


@pytest.mark.parametrize(
    "lose",
    [
        cut_every_connection,
        pytest.param(restart, marks=pytest.mark.slow),
        pytest.param(crash, marks=pytest.mark.slow),
        pytest.param(down_for_a_while, marks=pytest.mark.slow),
    ],
)
def test_a_worker_outlives_its_broker_and_starts_nothing_twice(
    own_redis: RedisServer, own_bench: Bench, lose: Loss
) -> None:
    """One run accepted and running, one short, one not accepted yet, spare slots: all end, each started once."""
    bench = own_bench
    own_redis.sync_always()
    with bench.worker(concurrency=6, VISIBILITY="10") as worker:
        bench.send("long", gate="long")
        bench.send("short", gate="short")
        bench.wait_for("started", 2)
        bench.send("late", claim_gate="late")
        bench.wait_for("seen", run="late")
        eventually(lambda: bench.unacked() == 1)
        lose(own_redis, bench)
        for gate in ("short", "late"):
            bench.open(gate)
            bench.wait_for("ended", run=gate)
        eventually(lambda: _send(bench, "next"))
        bench.wait_for("ended", run="next")
        bench.open("long")
        bench.wait_for("ended", run="long")
        # What was not acknowledged comes again, and finds nothing to do.
        eventually(lambda: bench.waiting() + bench.unacked() == 0)
        assert sorted(note["run"] for note in bench.notes("started")) == ["late", "long", "next", "short"]
        # Those that ran were acknowledged: the broker has nothing of them to deliver again.
        assert [len(bench.notes("seen", run=run)) for run in ("long", "short", "next")] == [1, 1, 1]
        assert worker.running
        assert "Unrecoverable error" not in worker.log


def test_runs_that_outlive_a_connection_are_still_shown(own_redis: RedisServer, own_bench: Bench) -> None:
    """Their events leave through the connection of today: one accepted before the loss, one after it."""
    with own_bench.worker() as worker:
        own_bench.send("long", gate="long")
        own_bench.wait_for("started", run="long")
        own_bench.send("late", claim_gate="late")
        own_bench.wait_for("seen", run="late")
        cut_every_connection(own_redis, own_bench)
        eventually(lambda: worker.log.count("Connected to") == 2)
        with EventWatch(own_bench) as events:
            own_bench.open("long")
            own_bench.open("late")
            events.wait_for("long", "task-succeeded")
            events.wait_for("late", "task-succeeded")
            assert events.kinds("late").count("task-started") == 1


@pytest.mark.slow
def test_a_worker_stops_while_its_broker_is_away(own_redis: RedisServer, own_bench: Bench) -> None:
    """SIGTERM is heard between two attempts to connect; the host is stopped in order."""
    with own_bench.worker(DRAIN="1") as worker:
        own_bench.send("r1", seconds=60)
        own_bench.wait_for("started")
        own_redis.stop()
        worker.wait_for_log("Cannot connect to redis")
        assert worker.stop() == 0
        assert len(own_bench.notes("stop")) == 1


@pytest.mark.slow
def test_a_worker_waits_for_a_broker_that_is_not_there_yet(own_redis: RedisServer, own_bench: Bench) -> None:
    """Started before its broker, as machines do after a power cut."""
    own_redis.stop()
    worker = own_bench.worker()
    worker.start()
    try:
        worker.wait_for_log("Cannot connect to redis", START_SECONDS)
        own_redis.start()
        worker.wait_ready()
        own_bench.send("r1")
        own_bench.wait_for("ended")
    finally:
        worker.close()


def _send(bench: Bench, run_id: str) -> bool:
    """Publish; the client's own first try after a restart may meet its dead connection."""
    try:
        bench.send(run_id)
    except bench.celery.connection().connection_errors:
        return False
    return True
