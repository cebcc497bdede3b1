"""A run's way through everything that connects: one URL, or two, must serve each of it."""

import asyncio
import json
from typing import Any

import click.testing
from cli.shared import told
from support.flower_process import FlowerProcess
from support.waiting import eventually
from support.worker_process import WorkerProcess

from turnfleet import Approve, AsyncFleet, Fleet, PlanSpec
from turnfleet.cli.main import cli

PLAN = PlanSpec(name="desk", model="desk", tools=("refund",))
APP = "security.apps.desk"


class Journey:
    """One fleet at the place that `url` and `broker_url` name. None of `secrets` may be in the worker's log."""

    def __init__(
        self,
        url: str,
        name: str,
        *,
        broker_url: str | None = None,
        key_prefix: str = "",
        secrets: tuple[str, ...] = (),
    ) -> None:
        self.place: dict[str, Any] = {"name": name, "broker_url": broker_url, "key_prefix": key_prefix}
        self.url = url
        self.secrets = secrets
        self.env = {"TURNFLEET_REDIS_URL": url, "TURNFLEET_NAME": name, "TURNFLEET_KEY_PREFIX": key_prefix}
        self.env |= {"TURNFLEET_BROKER_URL": broker_url} if broker_url else {}

    def works(self, *, flower: bool = False) -> None:
        """Enqueue, listen, decide, with a worker and both clients; ask the doctor, and Flower where it is asked for."""
        with (
            WorkerProcess(APP, env=self.env) as worker,
            Fleet(self.url, **self.place, poll_interval=3600) as fleet,
        ):
            run = fleet.enqueue(PLAN, "please", run_id="r")
            kinds = [event.kind for event in run.events(until="pause", timeout=60)]
            assert kinds[-1] == "approval"
            (waiting,) = run.interrupts()
            run.resume({waiting.id: Approve()}, by="ann", roles=("finance",))
            assert asyncio.run(self._follow()) == "done"
            assert run.result(timeout=60).text == "all done"
            assert [each["worker"].rpartition(":")[2] for each in fleet.workers()] == [str(worker.pid)]
            self._doctor()
            if flower:
                self._flower(worker, fleet)
            for secret in self.secrets:
                assert secret not in worker.log

    async def _follow(self) -> str:
        async with AsyncFleet(self.url, **self.place, poll_interval=3600) as fleet:
            return [event.kind async for event in fleet.run("r").events(timeout=60)][-1]

    def _doctor(self) -> None:
        shown = click.testing.CliRunner(env=self.env).invoke(cli, ["doctor", "--json"])
        seen = {each["check"]: each["severity"] for each in told(shown)["findings"]}
        assert [seen[check] for check in ("redis.reachable", "broker.reachable", "workers.alive")] == ["ok"] * 3
        assert [secret for secret in self.secrets if secret in shown.output] == []

    def _flower(self, worker: WorkerProcess, fleet: Fleet) -> None:
        with FlowerProcess(APP, env=self.env) as seen:
            eventually(lambda: worker.hostname in seen.get("/api/workers?refresh=1"), what="the worker in Flower")
            found = fleet.enqueue(PLAN, "again", run_id="again")
            eventually(lambda: seen.find("again").get("again"), what="the run in Flower")
            assert list(found.events(until="pause", timeout=60))[-1].kind == "approval"
            queues = seen.get("/api/queues/length")["active_queues"]
            assert [queue["name"] for queue in queues] == [f"turnfleet.{self.place['name']}"]
            shown = json.dumps(seen.get("/api/workers?refresh=1")) + seen.log
            assert [secret for secret in self.secrets if secret in shown] == []
