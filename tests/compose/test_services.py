"""Every service of the compose file runs: its own command, environment and health check, without an engine."""

import base64
import json
import os
import re
import signal
import subprocess
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import redis
from compose.conftest import StartMachine
from compose.machine import Machine
from support.scraping import scrape
from support.waiting import eventually

from turnfleet import Fleet

ASK_A_PERSON = re.compile(r"turnfleet (resume .*)$", re.MULTILINE)


def ask_flower(machine: Machine, path: str, login: str | None = None) -> Any:
    """Give what Flower answers to this path."""
    headers = {} if login is None else {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"}
    with urlopen(Request(f"http://127.0.0.1:{machine.flower_port}{path}", headers=headers), timeout=60) as answer:
        return json.loads(answer.read())


def events_of(printed: str) -> list[tuple[int, str]]:
    """Read index and kind of the events that the producer printed."""
    return [(int(index), kind) for index, kind in re.findall(r"^ *(\d+) (\w+)", printed, re.MULTILINE)]


def test_a_run_goes_from_the_producer_to_its_end_and_flower_shows_it(
    start_machine: StartMachine, variables: dict[str, str]
) -> None:
    """All four services, started in the order of their dependencies, do what they are for."""
    machine = start_machine("redis", "worker", "flower")
    produced = machine.run("producer")
    assert produced.returncode == 0, produced.stderr
    events = events_of(produced.stdout)
    assert [index for index, _ in events] == list(range(len(events)))
    assert [kind for _, kind in events if kind in {"tool_call", "tool_result", "done"}] == [
        "tool_call",
        "tool_result",
        "done",
    ]
    assert produced.stdout.splitlines()[-1] == "completed"
    # Flower answers to whom .env names, and to nobody else.
    run_id = produced.stdout.split()[1]
    login = f"{variables['FLOWER_USER']}:{variables['FLOWER_PASSWORD']}"
    seen = eventually(lambda: ask_flower(machine, f"/api/tasks?search={run_id}", login), what="the run in Flower")
    assert list(seen) == [run_id]
    counted = scrape(f"127.0.0.1:{machine.metrics_port}")
    assert counted["turnfleet_runs_ended_total", "plan=support", "state=completed"] == 1
    for wrong in (None, f"{variables['FLOWER_USER']}:guess"):
        with pytest.raises(HTTPError) as refused:
            ask_flower(machine, "/api/tasks", wrong)
        assert refused.value.code == 401
        refused.value.close()


def test_a_refund_above_the_limit_waits_for_the_person_whom_the_producer_names(start_machine: StartMachine) -> None:
    """The command that the producer prints is the one that lets the run go on."""
    machine = start_machine("redis", "worker")
    produced = machine.run("producer", REFUND_AMOUNT="80")
    assert produced.returncode == 0, produced.stderr
    asks = ASK_A_PERSON.search(produced.stdout)
    assert asks is not None, produced.stdout
    decided = machine.perform(["turnfleet", *asks[1].split()], "producer")
    assert decided.returncode == 0, decided.stderr
    with Fleet(machine.redis_url) as fleet:
        assert (
            fleet.run(produced.stdout.split()[1])
            .result(timeout=60)
            .text.endswith("Done: refunded 80.00 for order 1001.")
        )


def test_the_run_store_keeps_what_it_is_given(start_machine: StartMachine, variables: dict[str, str]) -> None:
    """Append-only file synced each second, nothing evicted, nothing without the password; the data outlives a stop."""
    machine = start_machine("redis")
    with redis.Redis.from_url(machine.admin_url, decode_responses=True) as client:
        wanted = {"appendonly": "yes", "appendfsync": "everysec", "maxmemory-policy": "noeviction", "save": ""}
        assert {name: client.config_get(name)[name] for name in wanted} == wanted
        assert client.config_get("maxmemory") == {"maxmemory": str(1024**3)}
        client.set("kept", "yes")
    stranger = redis.Redis(port=machine.redis_port)
    with pytest.raises(redis.AuthenticationError):
        stranger.ping()
    stranger.close()
    assert machine.stop("redis") == 0
    machine.start("redis")
    eventually(lambda: machine.healthy("redis"), what="the health of redis after its restart")
    with redis.Redis.from_url(machine.admin_url, decode_responses=True) as client:
        assert client.get("kept") == "yes"


def test_the_health_checks_tell_the_sick_from_the_well(start_machine: StartMachine) -> None:
    """A Redis that refuses the password and a worker that hangs are found out by the checks in the file."""
    machine = start_machine("redis", "worker")
    os.kill(machine.pid("worker"), signal.SIGSTOP)
    assert not machine.healthy("worker")
    os.kill(machine.pid("worker"), signal.SIGCONT)
    eventually(lambda: machine.healthy("worker"), what="the health of a worker that was woken")
    machine.services["redis"]["environment"]["REDISCLI_AUTH"] = "guess"
    assert not machine.healthy("redis")


def begin_a_run(machine: Machine, fleet: Fleet) -> str:
    """Start the producer's run, wait until a worker has it, and leave."""
    producer = subprocess.Popen(
        ["python", "produce.py"],
        cwd=machine.folder / "srv/fleet",
        env=machine.environment("producer"),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert producer.stdout is not None
        run_id = producer.stdout.readline().split()[1]
        eventually(lambda: fleet.run(run_id).status().state == "running", what="a worker at the run")
    finally:
        producer.kill()
        producer.communicate()
    return run_id


def test_sigterm_hands_a_run_to_the_next_worker(start_machine: StartMachine) -> None:
    """An upgrade in the middle of a run: the worker ends within its grace, and the run goes on in the next one."""
    machine = start_machine("redis", "worker", RULE_MODEL_SECONDS="2")
    with Fleet(machine.redis_url) as fleet:
        run_id = begin_a_run(machine, fleet)
        assert machine.stop("worker") == 0
        assert fleet.run(run_id).status().state == "queued"
        machine.start("worker")
        assert fleet.run(run_id).result(timeout=40).text.endswith("Done: refunded 20.00 for order 1001.")


@pytest.mark.slow
def test_sigterm_ends_a_worker_within_its_grace_whatever_its_runs_do(start_machine: StartMachine) -> None:
    """A model that answers in an hour holds a worker for its drain, not beyond its stop_grace_period."""
    machine = start_machine("redis", "worker", RULE_MODEL_SECONDS="3600")
    with Fleet(machine.redis_url) as fleet:
        run_id = begin_a_run(machine, fleet)
        assert machine.stop("worker") == 0
        assert fleet.run(run_id).status().state == "queued"
