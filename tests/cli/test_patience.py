"""A run that nobody can work on emits nothing: whoever follows it is told why, once."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, cast

import pytest
from cli.shared import PLAN, Command, command_for
from support.ports import free_port
from support.redis_server import RedisServer
from support.waiting import eventually

from turnfleet import Fleet, FleetUnavailable, Run
from turnfleet.cli import failures, patience


@pytest.fixture(autouse=True)
def _short_glance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "GLANCE_SECONDS", 0.1)


def test_without_a_worker_that_is_said_once(command: Command, fleet: Fleet) -> None:
    """On stderr, so that what a program reads stays the events; then it goes on waiting."""
    run = fleet.enqueue(PLAN, "hello")
    done = command("tail", run.run_id, "--timeout", "2", "--json")
    first, last = done.stderr.splitlines()
    assert (done.exit_code, done.stdout) == (1, "")
    assert first == "queued, and no worker of this fleet is alive: start one; turnfleet doctor says more"
    assert "nothing came from run" in last


def test_a_queue_that_nobody_reads_is_named(desk: tuple[Command, Fleet]) -> None:
    """A worker is there, and reads another one."""
    command, fleet = desk
    run = fleet.enqueue(PLAN, "hello", queue="nobody")
    assert "queued on 'nobody', which no live worker reads" in command("tail", run.run_id, "--timeout", "2").stderr
    run.cancel()


def test_a_run_that_waits_for_people_or_for_its_time_stands_for_no_reason(desk: tuple[Command, Fleet]) -> None:
    """Nothing is wrong then, and nothing is said."""
    command, fleet = desk
    asks = fleet.enqueue(PLAN, "pay 20")
    list(asks.events(until="pause", timeout=60))
    later = fleet.enqueue(PLAN, "hello", countdown=3600)
    for run in (asks, later):
        assert "queued" not in command("tail", run.run_id, "--timeout", "0.5").stderr.replace(run.run_id, "")
        run.cancel()


def test_a_parked_run_says_what_is_missing() -> None:
    """The words are those of the worker that could not use its model."""
    status = SimpleNamespace(state="parked", parked_because="model 'a' cannot be used by this worker: no key")
    run = cast("Run[Any]", SimpleNamespace(status=lambda: status))
    said = patience.why_none_come(cast("Fleet", None), run)
    assert said == "parked: model 'a' cannot be used by this worker: no key; it goes on when a worker fits"


@pytest.fixture
def far(own_redis: RedisServer, fleet_name: str) -> Iterator[Fleet]:
    """Give the client of a fleet on a Redis of the test's own."""
    with Fleet(own_redis.url, name=fleet_name, timeout=1) as fleet:
        yield fleet


def follow(fleet: Fleet, run: "Run[Any]", told: list[str]) -> list[str]:
    """Give the kinds of a run's events, and what is told beside them."""
    events = patience.events(fleet, run, after=-1, until="terminal", timeout=None, tell=told.append)
    return [event.kind for event in events]


def test_an_outage_is_waited_through_and_told_once(own_redis: RedisServer, far: Fleet) -> None:
    """What happens after it shows in the same tail."""
    told: list[str] = []
    run = far.enqueue(PLAN, "hello")
    with ThreadPoolExecutor(1) as thread:
        following = thread.submit(follow, far, run, told)
        eventually(lambda: told, what="it follows")
        own_redis.stop()
        eventually(lambda: told[1:], what="it meets the outage")
        own_redis.start()
        assert run.cancel("enough")
        assert following.result(timeout=60) == ["cancelled"]
    assert told[0].startswith("queued, and no worker")
    (away,) = (reason for reason in told if reason.endswith("still waiting"))
    assert "did not answer" in away


def test_an_outage_that_lasts_ends_the_wait(
    own_redis: RedisServer, far: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the client's own error, which the command tells."""
    monkeypatch.setattr(patience, "OUTAGE_SECONDS", 1.0)
    told: list[str] = []
    run = far.enqueue(PLAN, "hello")
    with ThreadPoolExecutor(1) as thread:
        following = thread.submit(follow, far, run, told)
        eventually(lambda: told, what="it follows")
        own_redis.stop()
        with pytest.raises(FleetUnavailable, match=run.run_id):
            following.result(timeout=60)


def test_a_server_that_is_away_from_the_start_is_not_waited_for() -> None:
    """Its address may be wrong."""
    command = command_for(f"redis://127.0.0.1:{free_port()}/0", "default")
    done = command("tail", "run-1", "--timeout", "600")
    assert (done.exit_code, "did not answer" in done.stderr) == (failures.UNREACHABLE, True)
