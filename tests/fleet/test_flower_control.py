"""What Flower's buttons do to a worker: its pool grows and shrinks, and it is shut down; and what its page tells."""

from collections.abc import Iterator
from typing import Any

import pytest
from fleet.conftest import PLAN, steps
from fleet.watched import Watched, watch
from support.redis_server import RedisServer
from support.waiting import eventually


@pytest.fixture(scope="module")
def watched(redis_server: RedisServer) -> Iterator[Watched]:
    """Give a fleet that Flower watches, with a worker that is to be changed and ended."""
    with watch(redis_server, "control", concurrency=4) as fleet:
        yield fleet


def stats(watched: Watched) -> dict[str, Any]:
    """Ask the worker, by way of Flower, for its statistics."""
    found: dict[str, Any] = eventually(lambda: watched.told("stats"))
    return found


@pytest.mark.slow
def test_a_worker_tells_its_load_follows_the_pool_buttons_and_drains_when_it_is_shut_down(watched: Watched) -> None:
    """One worker's life as an operator sees it."""
    hostname = watched.worker.hostname
    watched.fleet.enqueue(PLAN, steps("over")).result(timeout=60)
    held = watched.held("held", "over")
    told = stats(watched)
    own, shown = told["turnfleet"], told["pool"]
    assert (own["runs"], own["in-flight"], own["limit"], own["draining"]) == (1, 1, 4, False)
    assert own["messages"] == {"claimed": 2}
    assert own["claims-per-second"] > 0
    assert 0 <= own["loop-lag-seconds"] <= own["worst-loop-lag-seconds"]
    # The worker's page prints its pool's values as they are.
    assert (shown["messages"], shown["draining"]) == (["claimed: 2"], "False")

    watched.flower.post(f"/api/worker/pool/grow/{hostname}", n=3)
    eventually(lambda: stats(watched)["turnfleet"]["limit"] == 7)
    watched.flower.post(f"/api/worker/pool/shrink/{hostname}", n=5)
    eventually(lambda: stats(watched)["turnfleet"]["limit"] == 2)
    assert stats(watched)["pool"]["max-concurrency"] == 2

    watched.flower.post(f"/api/worker/shutdown/{hostname}")
    eventually(lambda: [each["draining"] for each in watched.fleet.workers()] == [True])
    watched.plain.rpush(watched.gate, "open")
    assert watched.worker.wait() == 0
    # Its call was let end, and its run was handed back; nothing was lost.
    status = held.status()
    assert (status.state, status.attempts, status.losses) == ("queued", 1, 0)
    eventually(lambda: watched.flower.find("held")["held"]["result"] == repr({"state": "queued", "run_id": "held"}))
