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


def program(name: str) -> str:
    """Return how to call a program of this installation: by its name when that finds it, else by its path."""
    own = Path(sys.executable).parent / name
    found = shutil.which(name)
    return name if found is not None and Path(found).resolve() == own.resolve() else shlex.quote(str(own))


def steps(
    *, redis_url: str | None, worker: bool, fleet: str, limit: str, ledger: Path, files: Sequence[str], model: str
) -> list[Step]:
    """Return the steps, beginning with a Redis unless one is named, and with a worker where there will be none."""
    turnfleet, celery = program("turnfleet"), program("celery")
    url = redis_url or "redis://127.0.0.1:6379/0"
    where = f"export TURNFLEET_REDIS_URL={shlex.quote(url)} TURNFLEET_NAME={shlex.quote(fleet)}"
    settings = f"TURNFLEET_DEMO_LIMIT={limit} TURNFLEET_DEMO_LEDGER={shlex.quote(str(ledger))}"
    if model != RULES:
        settings += f" TURNFLEET_DEMO_MODEL={shlex.quote(model)}"
    demo = f"{turnfleet} demo {shlex.join([*files, '--model', model])}"
    redis = Step("start a Redis", "redis-server --appendonly yes --maxmemory-policy noeviction &")
    celery_worker = Step("start a worker", f"{settings} {celery} -A turnfleet_worker.demo.fleet worker -c 8 &")
    return [
        *([] if redis_url else [redis]),
        Step("say which fleet", where),
        *([celery_worker] if worker else []),
        Step("write down the plan and the prompt", f"{demo} --print plan > plan.json"),
        Step("", f"{demo} --print prompt > prompt.txt"),
        Step("enqueue", f"RUN=$({turnfleet} enqueue plan.json - < prompt.txt)"),
        Step("follow the events until it asks", f"{turnfleet} tail $RUN --until pause"),
        Step("see what it asks, and decide", f"{turnfleet} inbox"),
        Step("", f"{turnfleet} resume $RUN"),
        Step("follow it to its end", f"{turnfleet} tail $RUN"),
    ]
