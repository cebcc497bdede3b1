"""A run that nobody can work on emits nothing: whoever follows it is told why, once."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from cli.shared import PLAN, Command

from turnfleet import Fleet, Run
from turnfleet.cli import patience


@pytest.fixture(autouse=True)
def _short_glance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "GLANCE_SECONDS", 0.1)


def test_without_a_worker_that_is_said_once(command: Command, fleet: Fleet) -> None:
    """On stderr, so that what a program reads stays the events; then it goes on waiting."""
    run = fleet.enqueue(PLAN, "hello")
    done = command("tail", run.run_id, "--timeout", "1", "--json")
    first, last = done.stderr.splitlines()
    assert (done.exit_code, done.stdout) == (1, "")
    assert first == "queued, and no worker of this fleet is alive: start one; turnfleet doctor says more"
    assert "nothing came from run" in last


def test_a_queue_that_nobody_reads_is_named(desk: tuple[Command, Fleet]) -> None:
    """A worker is there, and reads another one."""
    command, fleet = desk
    run = fleet.enqueue(PLAN, "hello", queue="nobody")
    assert "queued on 'nobody', which no live worker reads" in command("tail", run.run_id, "--timeout", "1").stderr
    run.cancel()


def test_a_run_that_waits_for_people_or_for_its_time_stands_for_no_reason(desk: tuple[Command, Fleet]) -> None:
    """Nothing is wrong then, and nothing is said."""
    command, fleet = desk
    asks = fleet.enqueue(PLAN, "pay 20")
    list(asks.events(until="pause", timeout=30))
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
