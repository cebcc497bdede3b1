"""What the broker does with messages costs no run a second start, and no run its first (DESIGN 1, DESIGN 7)."""

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from typing import Any

import pytest
import redis
from amqp.exceptions import AMQPError
from faults.site import Site
from fleet.conftest import call, steps
from fleet.helpers import check_stream
from kombu import Connection
from support.redis_server import RedisServer
from support.waiting import GLANCE_SECONDS, eventually

from turnfleet import RunPaused


@pytest.mark.slow
def test_a_run_longer_than_the_visibility_timeout_starts_once(site: Site) -> None:
    """3 s of visibility, a run of 12 s, three live workers: acknowledged at its claim, no other gets it."""
    for _ in range(3):
        site.worker(env={"REOFFER": "3600"})
    run = site.enqueue(prompt=steps([call("nap", seconds=12)], "all done"))
    assert run.result(timeout=40).text == "all done"
    assert (len(site.marks("nap:")), len(site.marks("model:"))) == (1, 2)
    assert (run.status().attempts, [worker.log.count("received") for worker in site.workers].count(0)) == (1, 2)


def test_a_producer_that_dies_before_it_publishes_has_enqueued(
    site: Site, own_redis: RedisServer, fleet_name: str
) -> None:
    """The record is there and no message: the sweep offers the run, and it runs once."""
    program = f"""
        import os, signal, sys
        from turnfleet import Fleet, PlanSpec
        from turnfleet.wire import Publisher

        Publisher.publish_many = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        plan = PlanSpec(name="shop", model="planned", tools=("note", "nap"))
        Fleet({own_redis.url!r}, name={fleet_name!r}).enqueue(plan, sys.argv[1], run_id="orphan")
    """
    prompt = steps([call("note", text="x")], "all done")
    producer = subprocess.run([sys.executable, "-c", textwrap.dedent(program), prompt], timeout=240, check=False)
    assert producer.returncode == -signal.SIGKILL
    run = site.fleet.run("orphan")
    assert run.status().state == "queued"
    with redis.Redis.from_url(own_redis.url) as client:
        assert [key for key in client.keys(f"turnfleet.{fleet_name}*") if client.type(key) == b"list"] == []
        # The producer's own settings say when the sweep first looks: it is due now, for this test.
        for key in client.keys(f"{{{fleet_name}:*}}:due"):
            client.zadd(key, {"orphan": 1}, xx=True)
    site.worker(env={"REOFFER": "0.5"})
    assert run.result(timeout=40).text == "all done"
    assert site.marks("note:") == ["note:orphan:call-0-0"]
    check_stream(list(run.events(timeout=60)))


@pytest.mark.slow
def test_an_eta_beyond_the_visibility_timeout_is_published_once_when_due(site: Site, own_redis: RedisServer) -> None:
    """It waits in the record, not in a worker's memory: nothing is on the broker before, one message at its time."""
    site.worker(env={"REOFFER": "3600"})
    due = time.monotonic() + 5
    run = site.enqueue(countdown=5)
    with redis.Redis.from_url(own_redis.url) as client:
        while True:
            names = [key for key in client.keys(f"turnfleet.{site.name}*") if client.type(key) == b"list"]
            seen = (names, site.marks())
            if time.monotonic() >= due:
                break
            assert seen == ([], [])
            time.sleep(GLANCE_SECONDS)
    site.check([run])
    assert (run.status().attempts, site.workers[0].log.count("received")) == (1, 1)


def test_priority_9_overtakes_0_in_a_backlog(site: Site) -> None:
    """Ten wait with priority 0; what comes after them with 9 is served first."""
    low = [site.enqueue(prompt=steps([call("note", text="x")], "all done"), priority=0) for _ in range(10)]
    high = [site.enqueue(prompt=steps([call("note", text="x")], "all done"), priority=9) for _ in range(3)]
    site.worker(concurrency=1)
    for run in (*low, *high):
        run.result(timeout=40)
    order = [mark.split(":")[1] for mark in site.marks("note:")]
    assert (set(order[:3]), set(order[3:])) == ({run.run_id for run in high}, {run.run_id for run in low})


@pytest.mark.slow
def test_priority_9_overtakes_0_on_rabbitmq(own_redis: RedisServer, fleet_name: str) -> None:
    """The same with the messages on RabbitMQ, in queues of this test's own; the runs stay on Redis."""
    url = os.environ.get("TURNFLEET_TEST_AMQP_URL", "amqp://guest:guest@127.0.0.1:5672//")
    name = f"{fleet_name}-{os.getpid()}"
    with Connection(url, connect_timeout=10) as connection:
        try:
            connection.connect()
        except (OSError, AMQPError) as error:
            pytest.skip(f"not run: no RabbitMQ answers ({type(error).__name__}); set TURNFLEET_TEST_AMQP_URL")
        try:
            with Site(own_redis.url, name, url) as site:
                test_priority_9_overtakes_0_in_a_backlog(site)
        finally:
            channel: Any = connection.default_channel
            own = f"turnfleet.{name}"
            channel.queue_delete(own)
            for exchange in (own, f"{own}.events", f"{own}.control.pidbox", f"reply.{own}.control.pidbox"):
                channel.exchange_delete(exchange)


def test_the_kill_of_a_worker_between_pop_and_claim_costs_no_run(site: Site) -> None:
    """Stopped, its messages are nobody's; killed, they come back by the broker or by the sweep."""
    worker = site.worker(concurrency=2)
    runs = [site.enqueue(prompt=steps([call("nap", seconds=0.2)], "all done")) for _ in range(12)]
    eventually(lambda: site.marks("nap:"))
    worker.kill()
    site.workers.clear()
    site.worker(env={"REOFFER": "1"})
    states = {}
    for run in runs:
        with contextlib.suppress(RunPaused):
            run.result(timeout=60)
        states[run.run_id] = run.status().state
    # What the killed worker had in its hands is asked about, at most as many as it had slots.
    done = {run_id for run_id, state in states.items() if state == "completed"}
    assert (len(done) >= 10, set(states.values()) <= {"completed", "paused"}) == (True, True)
    napped = [mark.split(":")[1] for mark in site.marks("nap:")]
    # One that was killed between the note that its call begins and the call itself has not napped.
    assert (len(napped), done <= set(napped)) == (len(set(napped)), True)
