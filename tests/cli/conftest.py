"""The command in this process, and a fleet with one real worker for those tests that need one."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.shared import PLAN, Command, command_for
from support.redis_server import RedisServer
from support.worker_process import WorkerProcess

from turnfleet import Fleet


@pytest.fixture
def command(redis_url: str, fleet_name: str, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run the command against a fleet without workers."""
    monkeypatch.delenv("TURNFLEET_BROKER_URL", raising=False)
    return command_for(redis_url, fleet_name)


@pytest.fixture
def fleet(redis_url: str, fleet_name: str) -> Iterator[Fleet]:
    """Give the client of the same fleet."""
    with Fleet(redis_url, name=fleet_name) as opened:
        yield opened


@pytest.fixture
def plan_file(tmp_path: Path) -> str:
    """Give a file with the desk's plan."""
    path = tmp_path / "plan.json"
    path.write_text(PLAN.model_dump_json())
    return str(path)


@pytest.fixture(scope="module")
def desk(redis_server: RedisServer, shared_fleet_name: str) -> Iterator[tuple[Command, Fleet]]:
    """Give the command and the client of a file's own fleet, which has one worker."""
    environment = {"TURNFLEET_REDIS_URL": redis_server.url, "TURNFLEET_NAME": shared_fleet_name}
    with (
        WorkerProcess("cli.apps.desk", env=environment),
        Fleet(redis_server.url, name=shared_fleet_name) as opened,
    ):
        yield command_for(redis_server.url, shared_fleet_name), opened
