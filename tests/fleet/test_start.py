"""How a worker starts when its Redis is not there yet."""

from fleet.conftest import PLAN, steps
from support.redis_server import RedisServer
from support.worker_process import START_SECONDS, WorkerProcess

from turnfleet import Fleet


def test_a_worker_waits_for_a_redis_that_is_away(own_redis: RedisServer, fleet_name: str) -> None:
    """It says so, and begins when the server is there: an outage must not end every worker that restarts in it."""
    own_redis.stop()
    env = {"TURNFLEET_REDIS_URL": own_redis.url, "TURNFLEET_NAME": fleet_name}
    worker = WorkerProcess("fleet.planned", env=env)
    try:
        worker.start()
        worker.wait_for_log("the run store does not answer", START_SECONDS)
        own_redis.start()
        worker.wait_ready()
        with Fleet(own_redis.url, name=fleet_name) as fleet:
            assert fleet.enqueue(PLAN, steps("here")).result(timeout=60).text == "here"
    finally:
        worker.close()
