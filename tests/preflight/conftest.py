"""A fleet whose workers are gone, with a run of each case, as a build about to be replaced leaves it."""

import asyncio
import itertools
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis
from preflight.cases import CASES, Case
from support.lines import lines_so_far
from support.redis_server import RedisServer
from support.waiting import eventually
from support.worker_process import WorkerProcess

from turnfleet import Edit, Fleet
from turnfleet.store import Keys
from turnfleet.store.executor import AsyncExecutor
from turnfleet_worker.preflight.check import preflight
from turnfleet_worker.preflight.report import Report
from turnfleet_worker.preflight.survey import Wanted
from turnfleet_worker.preflight.verdicts import Verdict
from turnfleet_worker.registry import Registry

_numbers = itertools.count(1)
LATE = {"fresh", "missing-model", "due-later", "held"}
"""Enqueued when no worker is there any more."""


@dataclass
class Site:
    """The fleet, and what can be seen of it from outside."""

    url: str
    name: str
    fleet: Fleet
    client: redis.Redis
    marks: Path

    def worker(self, build: str) -> WorkerProcess:
        """Give a worker of a build."""
        env = {"TURNFLEET_REDIS_URL": self.url, "TURNFLEET_NAME": self.name, "BUILD": build, "MARKS": str(self.marks)}
        return WorkerProcess("preflight.app", concurrency=40, env=env)

    def look(self, registry: Registry, *, stages: bool = True, **wanted: Any) -> Report:
        """Run a preflight in this process."""

        async def check() -> Report:
            executor = AsyncExecutor(self.url)
            try:
                return await preflight(registry, executor, Keys(self.name), Wanted(**wanted), stages=stages)
            finally:
                await executor.aclose()

        return asyncio.run(check())

    def keys(self) -> dict[bytes, tuple[bytes | None, int]]:
        """Give all there is on the server: what each key holds, and when it expires."""
        return {key: (self.client.dump(key), self.client.pexpiretime(key)) for key in self.client.scan_iter()}

    def verdicts(self, registry: Registry) -> dict[str, Verdict]:
        """Give what a preflight says of each run, by its id."""
        said: dict[str, Verdict] = {}

        class Keeping(Report):
            def take(self, verdict: Verdict) -> None:
                assert verdict.run_id not in said, "a run was looked at twice"
                said[verdict.run_id] = verdict

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("turnfleet_worker.preflight.check.Report", Keeping)
            self.look(registry)
        return said

    def effects(self, run_id: str, since: int) -> list[str]:
        """Give what models and tools did for a run (and those that it delegated to), from a line of the marks on."""
        lines = [line.split() for line in lines_so_far(self.marks)[since:]]
        return sorted(what for what, whose in lines if whose.split(".")[0] == run_id)


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    """Give a server on which nothing comes and goes but what these tests do: all its keys are compared."""
    server = RedisServer()
    server.start()
    yield server
    server.close()


@pytest.fixture(scope="module")
def site(server: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Give the fleet with one run of each case, and no worker."""
    marks = tmp_path_factory.mktemp("preflight") / "marks"
    marks.touch()
    name = f"preflight-{os.getpid()}-{next(_numbers)}"
    with (
        pytest.MonkeyPatch.context() as patch,
        Fleet(server.url, name=name) as fleet,
        redis.Redis.from_url(server.url) as client,
    ):
        patch.setenv("MARKS", str(marks))  # a preflight that called anything would leave its mark, too
        site = Site(server.url, name, fleet, client, marks)
        early = [case for case in CASES if case.name not in LATE]
        for case in early:
            fleet.enqueue(case.spec, case.prompt, run_id=case.name, tenant="acme" if case.name == "healthy" else None)
        fleet.enqueue(case_plan("spelled"), json.dumps([{"fail": "down"}]), run_id="failed")
        with site.worker("old") as worker:
            eventually(lambda: _has_settled(site, early), what="every run to stop where it should")
            worker.kill()
        for case in CASES:
            if case.name in LATE:
                when: dict[str, Any] = {"countdown": 86_400} if case.name == "due-later" else {}
                when |= {"thread_id": "line"} if case.name in {"fresh", "held"} else {}
                fleet.enqueue(case.spec, case.prompt, run_id=case.name, **when)
        _interfere(site)
        eventually(lambda: not client.exists(Keys(name).workers), what="the killed worker's announcement to expire")
        yield site


def case_plan(model: str) -> Any:
    """Give a plan of no case."""
    return {"name": "other", "model": model}


def _has_settled(site: Site, cases: list[Case]) -> bool:
    states = {case.name: site.fleet.run(case.name).status().state for case in cases}
    marks = site.marks.read_text()
    return (
        all(states[case.name] == {"queued": "paused"}.get(case.before, case.before) for case in cases)
        and all(f"{what} {run_id}\n" in marks for what, run_id in _AT_WORK)
        and site.fleet.run("failed").status().state == "failed"
    )


_AT_WORK = (("charge", "in-doubt"), ("commit", "answered"), ("commit", "misfit-answer"))


def _interfere(site: Site) -> None:
    """Do what other builds and people do between two builds."""
    keys = Keys(site.name)
    run = site.fleet.run("edited")
    run.resume({each.id: Edit({"sku": "a", "count": 3}) for each in run.interrupts()}, by="alice")
    site.client.hset(keys.record("out-of-time"), "ran", "60001")
    plan = json.loads(site.client.hget(keys.record("altered"), "plan"))  # type: ignore[arg-type]
    site.client.hset(keys.record("altered"), "plan", json.dumps({**plan, "instructions": "Pay twice."}))
    site.client.hset(keys.record("unreadable"), "plan", json.dumps({**plan, "novelty": 1}))
    request = json.loads(site.client.hget(keys.record("newer-request"), "request"))  # type: ignore[arg-type]
    site.client.hset(keys.record("newer-request"), "request", json.dumps({**request, "novelty": 1}))
    site.client.rpush(keys.journal("newer-journal"), json.dumps({"k": "novelty", "at": 9}))
    opened = json.loads(site.client.lindex(keys.journal("other-transcript"), 0))  # type: ignore[arg-type]
    site.client.lset(keys.journal("other-transcript"), 0, json.dumps({**opened, "transcript": {"messages": []}}))
    turn = json.loads(site.client.lindex(keys.journal("misfit-answer"), -1))  # type: ignore[arg-type]
    site.client.lset(keys.journal("misfit-answer"), -1, json.dumps({**turn, "text": '{"total": "three"}'}))
