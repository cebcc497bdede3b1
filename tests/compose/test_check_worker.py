"""What the worker's health check finds, beyond what the services' own tests show."""

import importlib.util
import socket
import subprocess
import sys
from types import ModuleType

import pytest
from compose.composition import COMPOSE
from support.redis_server import free_port
from support.worker_process import WorkerProcess


@pytest.fixture
def check_worker() -> ModuleType:
    """Give compose/check_worker.py as a module."""
    spec = importlib.util.spec_from_file_location("check_worker", COMPOSE / "check_worker.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_asks_the_worker_of_its_own_host_and_its_event_loop(
    check_worker: ModuleType, own_redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer that answers is not enough: nothing announces this one. And another host's worker does not count."""
    options = ("--pool=solo",)
    env = {"TURNFLEET_REDIS_URL": own_redis_url}
    with WorkerProcess("compose.bare_app", name="celery", env=env, options=options) as worker:
        monkeypatch.setattr(socket, "gethostname", lambda: worker.hostname.partition("@")[2])
        assert "no longer announces it" in check_worker.complaint(own_redis_url, own_redis_url, "default")
        monkeypatch.setattr(socket, "gethostname", lambda: "elsewhere")
        monkeypatch.setattr(check_worker, "ANSWER_SECONDS", 1.0)
        assert "celery@elsewhere of fleet 'default' did not answer" in check_worker.complaint(
            own_redis_url, own_redis_url, "default"
        )


def test_a_store_that_is_away_is_one_line_and_exit_code_1() -> None:
    """Whoever reads `docker inspect` finds the reason, no traceback and no password."""
    done = subprocess.run(
        [sys.executable, str(COMPOSE / "check_worker.py")],
        env={"TURNFLEET_REDIS_URL": f"redis://:secret@127.0.0.1:{free_port()}/0"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout.startswith("the broker or the run store is away")
    assert len(done.stdout.splitlines()) == 1
    assert "secret" not in done.stdout + done.stderr
    assert done.stderr == ""
