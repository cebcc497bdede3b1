"""What the worker's health check finds, beyond what the services' own tests show."""

import socket
import subprocess
import sys
from collections.abc import Mapping

import pytest
from support.ports import free_port
from support.worker_process import WorkerProcess

from turnfleet.store import Keys, commands
from turnfleet.store.executor import SyncExecutor
from turnfleet_worker import health

KEYS = Keys("default")


def test_it_asks_the_worker_of_its_own_host_and_its_event_loop(
    own_redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer that answers is not enough: nothing announces this one. Other workers do not count for it."""
    options = ("--pool=solo",)
    env = {"TURNFLEET_REDIS_URL": own_redis_url}
    with WorkerProcess("compose.bare_app", name="celery", env=env, options=options) as worker:
        host = worker.hostname.partition("@")[2]
        neighbour = {"worker": f"{host}:1", "node": f"other@{host}"}
        executor = SyncExecutor(own_redis_url)
        executor.execute(commands.announce(KEYS, neighbour["worker"], neighbour, 60_000))
        executor.close()
        monkeypatch.setattr(socket, "gethostname", lambda: host)
        monkeypatch.setattr(health, "ANSWER_SECONDS", 60.0)
        for node in (None, "celery@%h"):
            assert "no longer announces it" in str(health.complaint(own_redis_url, own_redis_url, KEYS, node))
        monkeypatch.setattr(socket, "gethostname", lambda: "elsewhere")
        monkeypatch.setattr(health, "ANSWER_SECONDS", 1.0)
        assert "celery@elsewhere of fleet 'default' did not answer" in str(
            health.complaint(own_redis_url, own_redis_url, KEYS)
        )


def check(env: Mapping[str, str]) -> str:
    """Run the check where it must fail; give its one line."""
    done = subprocess.run(
        [sys.executable, "-m", "turnfleet_worker.health"],
        env=dict(env),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert len(done.stdout.splitlines()) == 1
    return done.stdout


def test_a_store_that_is_away_is_one_line_and_exit_code_1() -> None:
    """Whoever reads `docker inspect` finds the reason, no traceback and no password."""
    said = check({"TURNFLEET_REDIS_URL": f"redis://:secret@127.0.0.1:{free_port()}/0"})
    assert said.startswith("the broker or the run store is away")
    assert "secret" not in said


def test_a_set_up_that_makes_no_sense_is_one_line_too() -> None:
    """Nothing set, or a cluster as the broker."""
    assert "TURNFLEET_REDIS_URL is not set" in check({})
    assert "cannot be the broker" in check({"TURNFLEET_REDIS_URL": "redis+cluster://:secret@127.0.0.1:1"})


def test_help_asks_nobody() -> None:
    """It says what is asked and what is read from the environment."""
    done = subprocess.run(
        [sys.executable, "-m", "turnfleet_worker.health", "--help"], capture_output=True, text=True, check=True
    )
    assert "NODE is what" in done.stdout
