"""What a restart of Redis keeps, by how it writes its append-only file (docs/guarantees.md, "After a restart")."""

import pytest
from faults.site import Site
from fleet.conftest import call, steps
from support.redis_server import RedisServer
from support.waiting import eventually

from turnfleet.errors import UnknownRun


def test_what_was_acknowledged_outlives_a_crash_of_the_server(fleet_name: str) -> None:
    """Kill -9 of the server in the middle of a run: its record, journal and log are there, and it goes on."""
    server = RedisServer("--appendfsync", "always")
    try:
        server.start()
        with Site(server.url, fleet_name) as site:
            run = site.enqueue()
            waiting = site.enqueue(run_id="waiting", countdown=3_600)
            site.worker()
            eventually(lambda: site.marks("nap:"))
            server.kill()
            server.start()
            site.check([run])
            assert (run.status().attempts, waiting.status().state) == (1, "queued")
    finally:
        server.close()


def test_without_persistence_a_restart_forgets_and_nobody_makes_anything_up(fleet_name: str) -> None:
    """Runs are unknown afterwards, not failed or half there; the worker lets go of what it had, and serves new ones."""
    server = RedisServer("--appendonly", "no")
    try:
        server.start()
        with Site(server.url, fleet_name) as site:
            worker = site.worker()
            prompt = steps([call("nap", seconds=60)], [call("note", text="too late")], "all done")
            gone = site.enqueue(run_id="again", prompt=prompt)
            eventually(lambda: site.marks("nap:"))
            server.restart()
            with pytest.raises(UnknownRun):
                eventually(gone.status)
            eventually(lambda: [each["in_flight"] for each in site.fleet.workers()] == [0])
            assert (site.marks("note:"), worker.running) == ([], True)
            assert site.insist("again").result(timeout=40).text == "all done"
    finally:
        server.close()
