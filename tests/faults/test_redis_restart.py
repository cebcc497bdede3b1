"""The server of store and broker fails and comes back while a fleet is at work (DESIGN 1, "Lease"; DESIGN 2)."""

import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis
from faults.site import Site
from support.redis_server import RedisServer
from support.waiting import always, eventually

from turnfleet.errors import FleetUnavailable


def restart(server: RedisServer) -> None:
    """Stop and start again, with the append-only file."""
    server.restart()


def crash(server: RedisServer) -> None:
    """Kill -9, and start again with what the append-only file has."""
    server.kill()
    server.start()
    server.sync_always()


@pytest.mark.slow
@pytest.mark.parametrize("hurt", [restart, crash])
def test_a_server_that_restarts_costs_no_run_and_no_effect(
    site: Site, own_redis: RedisServer, hurt: Callable[[RedisServer], None]
) -> None:
    """Three times during load: every run finishes in its first attempt, each effect once, on the same workers."""
    own_redis.sync_always()
    site.worker()
    site.worker()
    runs = []
    for number in range(3):
        runs += [site.insist(f"r{number}-{each}") for each in range(12)]
        eventually(lambda: {mark for mark in site.marks("nap:") if f":r{number}-" in mark})  # noqa: B023 - used at once
        hurt(own_redis)
    site.check(runs)
    assert {run.status().attempts for run in runs} == {1}


def enqueue_in_vain(site: Site) -> None:
    """Assert that a producer is told in time, by name, that its run may have got in: it then asks again."""
    with ThreadPoolExecutor(1) as thread, pytest.raises(FleetUnavailable) as refused:
        thread.submit(site.enqueue, run_id="in-vain").result(timeout=60)
    assert (refused.value.run_id, refused.value.maybe_enqueued) == ("in-vain", True)


def freeze(site: Site, server: RedisServer, seconds: float) -> None:
    """Stop the server's process without closing a connection, and let it go on after a while."""
    assert server.process is not None
    server.process.send_signal(signal.SIGSTOP)
    try:
        enqueue_in_vain(site)
        always(lambda: all(worker.running for worker in site.workers), seconds, what="every worker lives")
    finally:
        server.process.send_signal(signal.SIGCONT)


def away(site: Site, server: RedisServer, seconds: float) -> None:
    """Stop the server, and start it again after a while."""
    server.stop()
    enqueue_in_vain(site)
    always(lambda: all(worker.running for worker in site.workers), seconds, what="every worker lives")
    server.start()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("outage", "seconds"), [pytest.param(freeze, 30, id="30 s frozen"), pytest.param(away, 30, id="30 s away")]
)
def test_runs_outlive_an_outage_of_many_leases(
    site: Site, own_redis: RedisServer, outage: Callable[[Site, RedisServer, float], None], seconds: float
) -> None:
    """Leases of 3 s are long over when the server is back; nobody takes them, their owners renew them."""
    site.worker()
    site.worker()
    runs = [site.insist(f"r{each}") for each in range(12)]
    eventually(lambda: len(site.marks("nap:")) >= 6)
    outage(site, own_redis, seconds)
    site.check(runs, timeout=180)
    assert {run.status().attempts for run in runs} == {1}
    assert site.insist("in-vain").run_id == "in-vain"


def test_clients_that_are_cut_off_again_and_again(site: Site, own_redis: RedisServer) -> None:
    """CLIENT KILL of every connection, three times during load: no run, effect or event is lost or repeated."""
    site.worker()
    site.worker()
    with redis.Redis.from_url(own_redis.url) as client:
        runs = []
        for number in range(3):
            runs += [site.insist(f"r{number}-{each}") for each in range(3)]
            eventually(lambda: {mark for mark in site.marks("note:") if f":r{number}-" in mark})  # noqa: B023 - used at once
            for kind in ("normal", "pubsub"):
                client.client_kill_filter(_type=kind, skipme=True)
        site.check(runs)
    assert {run.status().attempts for run in runs} == {1}
