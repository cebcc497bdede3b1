"""What workers leave in Redis when they have come and gone: nothing that grows (DESIGN 1, "Keys")."""

from functools import partial

import pytest
import redis
from fleet.conftest import PLAN, SHORT_LEASE, StartWorker, call, steps
from support.waiting import eventually

from turnfleet import Fleet, Run

# Indexes of what has ended: entries leave them when the retention of their run is over.
INDEXES = {"s:completed", "s:cancelled", "gone"}
# kombu's own: the fleet's queue, and who listens to control commands and events. A killed worker leaves its host name
# in the last two.
BROKER = {"binding", "binding_permanent", "binding.control.pidbox", "binding.events"}


@pytest.mark.slow
def test_restarted_and_killed_workers_leave_the_fleets_own_keys_and_no_more(
    fleet: Fleet, start_worker: StartWorker, client: redis.Redis, fleet_name: str
) -> None:
    """Stopped or killed, with a run that had ended and one in hand: once all have ended, the named keys are left."""
    for killed in (False, True, True, False):
        worker = start_worker("fleet.patient", env=SHORT_LEASE)
        assert fleet.enqueue(PLAN, steps([call("note", text="x")], "quick")).result(timeout=60).text == "quick"
        cut = fleet.enqueue(PLAN, steps([call("dawdle", seconds=60)], "never"))
        eventually(partial(in_state, cut, "running"))
        if killed:
            # A message that was popped and not yet acknowledged would be kept for its visibility timeout.
            eventually(lambda: not client.exists(f"turnfleet.{fleet_name}.unacked"))
            worker.kill()
        assert cut.cancel("enough")
        if killed:  # its lease is taken back by the next worker's sweep
            worker = start_worker("fleet.patient", env=SHORT_LEASE)
        eventually(partial(in_state, cut, "cancelled"))
        worker.stop()
        eventually(lambda: fleet.workers() == ())
        assert lasting_keys(client, fleet_name) <= INDEXES | BROKER


def in_state(run: "Run[object]", state: str) -> bool:
    """Say whether a run is in a state."""
    return run.status().state == state


def lasting_keys(client: redis.Redis, fleet_name: str) -> set[str]:
    """Give the keys of a fleet, its broker's included, that have no TTL, without what names the fleet in them."""
    every = [str(name, "utf-8") for name in client.scan_iter(f"*{fleet_name}*") if client.ttl(name) == -1]
    names = [name.rpartition("}:")[2] for name in every if not name.startswith("marks:")]
    return {name.replace(f".turnfleet.{fleet_name}", "").removeprefix("_kombu.") for name in names}
