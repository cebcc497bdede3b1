"""A server that is out of memory, and one that would make room by deleting runs (DESIGN 1, "Keys")."""

import pytest
import redis
from faults.site import Site
from fleet.conftest import call, steps
from support.redis_server import RedisServer
from support.waiting import always, eventually
from support.worker_process import WorkerProcess

from turnfleet.errors import FleetUnavailable

HELD = ("note:{}:call-0-0", "wait_for:{}:call-1-0")


def test_a_full_server_refuses_new_work_and_lets_all_that_runs_come_to_its_end(
    site: Site, own_redis: RedisServer
) -> None:
    """Enqueue says why; receipts, finishes and heartbeats get in; what is queued goes on when there is room again."""
    site.worker(concurrency=4)
    gate = site.folder / "gate"
    held = steps([call("note", text="before")], [call("wait_for", path=str(gate))], "all done")
    with redis.Redis.from_url(own_redis.url) as client:
        runs = [site.insist(f"r{each}", prompt=held) for each in range(8)]
        eventually(lambda: len(site.marks("wait_for:")) == 4)
        begun = [run for run in runs if site.marks(f"wait_for:{run.run_id}:")]
        client.config_set("maxmemory", "1mb")
        with pytest.raises(FleetUnavailable, match="out of memory") as refused:
            site.enqueue(run_id="one-too-many")
        assert refused.value.run_id == "one-too-many"
        gate.touch()
        site.check(begun, effects=HELD)
        always(lambda: site.workers[0].running, 1, what="the worker lives")
        assert {run.run_id: run.status().state for run in runs if run not in begun} == {
            run.run_id: "queued" for run in runs if run not in begun
        }
        client.config_set("maxmemory", "0")
        site.check(runs, effects=HELD)
        site.check([site.insist("one-too-many")])
        assert {run.status().attempts for run in runs} == {1}


def test_a_worker_refuses_a_server_that_evicts(own_redis: RedisServer, site: Site, fleet_name: str) -> None:
    """It ends at once, saying what is wrong and what to do, without a traceback."""
    with redis.Redis.from_url(own_redis.url) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
    env = {"TURNFLEET_REDIS_URL": own_redis.url, "TURNFLEET_NAME": fleet_name, "MARKS": str(site.folder / "marks")}
    worker = WorkerProcess("faults.apps.shop", env=env)
    try:
        worker.start()
        assert worker.wait(40) != 0
        assert "allkeys-lru" in worker.log
        assert "CONFIG SET maxmemory-policy noeviction" in worker.log
        assert "Traceback" not in worker.log
    finally:
        worker.close()
