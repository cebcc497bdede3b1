"""Where scenarios are played: on a local fleet, and on a real one."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.lines import lines_so_far
from support.redis_server import RedisServer
from support.waiting import eventually
from support.worker_process import WorkerProcess
from testing_kit.scenarios import stranger_plan
from testing_kit.shop import registry

from turnfleet import Fleet, Run
from turnfleet_worker.testing import LocalFleet, local_fleet


class Effects:
    """What the shop's tools did since this was made."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "effects"
        self._before = len(self._lines())

    def __call__(self) -> list[str]:
        """List them."""
        return self._lines()[self._before :]

    def _lines(self) -> list[str]:
        return lines_so_far(self._file)


class LocalStage:
    """The kit."""

    def __init__(self, fleet: LocalFleet, effects: Effects) -> None:
        self.fleet = fleet
        self.effects = effects

    def until(self, holds: Callable[[], object]) -> None:
        """Let things come to rest, then skip time."""
        self.fleet.settle()
        for _ in range(60):
            if holds():
                return
            self.fleet.skip(seconds=1)
        raise AssertionError("it did not come to hold within a minute of the fleet's time")

    def kill_worker(self) -> None:
        """Kill the worker."""
        self.fleet.kill_worker()

    def stranger(self) -> Run[Any]:
        """Enqueue while there is no worker."""
        self.fleet.stop_worker()
        run = self.fleet.enqueue(stranger_plan(), "hi")
        self.fleet.start_worker()
        return run


class RealStage:
    """A real Redis and a real worker process."""

    def __init__(self, fleet: Fleet, folder: Path, redis_url: str) -> None:
        self.fleet = fleet
        self.effects = Effects(folder)
        self._folder = folder
        self._env = {"TURNFLEET_REDIS_URL": redis_url, "TURNFLEET_NAME": fleet.name, "SHOP_FOLDER": str(folder)}
        self._stranger = fleet.enqueue(stranger_plan(), "hi")
        self._worker = self._start()

    def _start(self) -> WorkerProcess:
        worker = WorkerProcess("testing_kit.real_shop", concurrency=8, env=self._env)
        worker.start()
        worker.wait_ready()
        return worker

    def begin(self) -> None:
        """Begin another scenario."""
        self.effects = Effects(self._folder)

    def until(self, holds: Callable[[], object]) -> None:
        """Wait."""
        eventually(lambda: bool(holds()))

    def kill_worker(self) -> None:
        """Kill the worker, and start another one."""
        self._worker.kill()
        self._worker.close()
        self._worker = self._start()

    def stranger(self) -> Run[Any]:
        """Give the run that was there before the worker."""
        return self._stranger

    def close(self) -> None:
        """End the worker."""
        self._worker.close()


@pytest.fixture
def local_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalStage]:
    """Give a local fleet of the shop."""
    monkeypatch.setenv("SHOP_FOLDER", str(tmp_path))
    with local_fleet(registry) as fleet:
        yield LocalStage(fleet, Effects(tmp_path))


@pytest.fixture(scope="module")
def real_shop(
    redis_server: RedisServer, shared_fleet_name: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealStage]:
    """Give a real fleet of the shop, shared by a file's tests."""
    with Fleet(redis_server.url, name=shared_fleet_name, poll_interval=0.5) as fleet:
        stage = RealStage(fleet, tmp_path_factory.mktemp("shop"), redis_server.url)
        yield stage
        stage.close()


@pytest.fixture
def real_stage(real_shop: RealStage) -> RealStage:
    """Give the real fleet at the beginning of a scenario."""
    real_shop.begin()
    return real_shop
