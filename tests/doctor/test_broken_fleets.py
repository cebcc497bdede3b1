"""The doctor at fleets that are broken for real."""

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import redis
from cli.shared import Command, command_for, told
from doctor.healthy import WORKER
from fleet.conftest import PLAN, SHORT_LEASE, call, steps
from kombu import Connection
from support.ports import free_port
from support.redis_server import RedisServer
from support.waiting import eventually
from support.worker_process import WorkerProcess

from turnfleet import Fleet
from turnfleet.store import Keys, commands
from turnfleet.store.executor import SyncExecutor
from turnfleet.wire.depths import look_into

Announce = Callable[..., None]
RABBITMQ = os.environ.get("TURNFLEET_TEST_AMQP_URL", "amqp://guest:guest@127.0.0.1:5672//")


@pytest.fixture
def doctor(redis_url: str, fleet_name: str) -> Command:
    """Give the command for this test's own fleet."""
    command = command_for(redis_url, fleet_name)
    return lambda *arguments: command("doctor", "--json", *arguments)


@pytest.fixture
def announce(redis_url: str, fleet_name: str) -> Iterator[Announce]:
    """Give a function that announces a worker which fits, with changes."""
    executor, keys = SyncExecutor(redis_url), Keys(fleet_name)

    def say(**changes: Any) -> None:
        body = {**WORKER, "queues": [f"turnfleet.{fleet_name}"], **changes}
        executor.execute(commands.announce(keys, str(body["worker"]), body, 60_000))

    yield say
    executor.close()


def found(command: Command, *arguments: str) -> dict[str, Mapping[str, str]]:
    """Return the worst finding of each check that is not OK, whatever this machine's latency is at the moment."""
    findings = told(command(*arguments))["findings"]
    return {each["check"]: each for each in findings if each["severity"] != "ok" and each["check"] != "redis.latency"}


@pytest.mark.slow
def test_a_worker_that_froze_is_found_by_the_run_that_it_held(redis_url: str, fleet_name: str) -> None:
    """All is well while it works; frozen, its lease ends, and the doctor names run and worker."""
    command = command_for(redis_url, fleet_name)
    environment = {"TURNFLEET_REDIS_URL": redis_url, "TURNFLEET_NAME": fleet_name, **SHORT_LEASE}
    with Fleet(redis_url, name=fleet_name) as fleet:
        with WorkerProcess("fleet.planned", concurrency=2, env=environment) as worker:
            run = fleet.enqueue(PLAN, steps([call("wait_for", key=f"gate:{fleet_name}")], "done"))
            eventually(lambda: run.status().state == "running")
            (announced,) = fleet.workers()
            assert announced["queues"] == [f"turnfleet.{fleet_name}"]
            assert abs(announced["clock"]["offset_ms"]) <= announced["clock"]["within_ms"] + 1.1
            assert found(command, "doctor", "--json", "--late", "5") == {}
            worker.send(signal.SIGSTOP)
            stuck = eventually(lambda: found(command, "doctor", "--json", "--late", "0.1").get("runs.stuck"))
            assert run.run_id in stuck["seen"]
            assert announced["worker"] in stuck["seen"]
            dead = f"no worker of fleet '{fleet_name}' is alive"
            done = eventually(lambda: dead in (done := command("doctor", "--late", "0.1")).stdout and done)
            assert done.exit_code == 1
            worker.send(signal.SIGCONT)
        run.cancel()


def test_a_redis_that_evicts_has_no_append_only_file_and_is_nearly_full(own_redis: RedisServer) -> None:
    """Each of the three is a problem of its own."""
    with redis.Redis.from_url(own_redis.url) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        client.config_set("appendonly", "no")
        client.setrange("filler", 30_000_000, b"x")  # made by the server: nothing so large passes through a buffer
        client.config_set("maxmemory", round(client.info("memory")["used_memory"] * 1.02))
        command = command_for(own_redis.url, "any")
        done = command("doctor")
        lines = [line.split("\t") for line in done.stdout.splitlines()]
    problems = {check for severity, check, *_ in lines if severity == "problem"}
    assert done.exit_code == 1
    assert problems == {"redis.eviction", "redis.persistence", "redis.memory", "workers.alive"}


def test_what_an_acl_refuses_could_not_be_looked_at(
    redis_url: str, fleet_name: str, announce: Announce, own_redis: RedisServer
) -> None:
    """INFO and CONFIG refused: findings, no failure, and no password; `--strict` takes them for one."""
    announce()
    with redis.Redis.from_url(redis_url) as client:
        client.execute_command("ACL", "SETUSER", "nosy", "on", ">s3cret", "~*", "&*", "+@all", "-info", "-config")
        try:
            url = redis_url.replace("redis://", "redis://nosy:s3cret@")
            command = command_for(url, fleet_name)
            unknown = found(command, "doctor", "--json")
            plain, strict = command("doctor"), command("doctor", "--strict")
        finally:
            client.execute_command("ACL", "DELUSER", "nosy")
    assert {check: each["severity"] for check, each in unknown.items()} == {
        "redis.info": "unknown", "redis.fsync": "unknown",
    }  # fmt: skip
    assert (plain.exit_code, strict.exit_code) == (0, 1)
    assert "s3cret" not in plain.output + strict.output


def test_a_user_who_may_not_run_scripts_learns_what_else_is_wrong(redis_url: str, fleet_name: str) -> None:
    """Then workers and runs are what could not be looked at."""
    with redis.Redis.from_url(redis_url) as client:
        client.execute_command("ACL", "SETUSER", "barred", "on", ">x", "~*", "&*", "+@all", "-@scripting")
        try:
            url = redis_url.replace("redis://", "redis://barred:x@")
            troubles = found(command_for(url, fleet_name), "doctor", "--json")
            done = command_for(url, fleet_name)("doctor")
        finally:
            client.execute_command("ACL", "DELUSER", "barred")
    assert {check: each["severity"] for check, each in troubles.items()} == {"workers.alive": "unknown"}
    assert done.exit_code == 0


def test_workers_that_do_not_fit_are_found(doctor: Command, announce: Announce) -> None:
    """Another version, an envelope that is not served, a clock that is off: all at once."""
    announce(worker="old:1", version="0.0.9", envelopes=[0], clock={"offset_ms": 86_400_000.0, "within_ms": 1.0})
    announce(worker="new:2")
    troubles = found(doctor)
    assert {check: each["severity"] for check, each in troubles.items()} == {
        "workers.envelopes": "problem", "workers.versions": "warning", "clock.workers": "warning",
    }  # fmt: skip
    assert "old:1" in troubles["clock.workers"]["seen"]


def test_a_queue_that_nobody_reads_is_found_by_its_messages(
    doctor: Command, announce: Announce, redis_url: str, fleet_name: str
) -> None:
    """The run is queued and its message waits; the advice names the queue."""
    announce(models=["planned"], tools=dict.fromkeys(PLAN.tools, ""))
    with Fleet(redis_url, name=fleet_name) as fleet:
        fleet.enqueue(PLAN, steps("hi"), queue=f"bulk-{fleet_name}")
    unread = found(doctor)["queues.unread"]
    assert unread["severity"] == "problem"
    assert f"queue 'bulk-{fleet_name}' has 1 message and at least 1 queued run" in unread["seen"]
    announce(queues=[f"turnfleet.{fleet_name}", f"bulk-{fleet_name}"])
    assert "queues.unread" not in found(doctor)


def test_a_server_that_is_down_is_a_finding(fleet_name: str) -> None:
    """Exit code 1, two problems, no traceback."""
    done = command_for(f"redis://:pw@127.0.0.1:{free_port()}/0", fleet_name)("doctor")
    assert done.exit_code == 1
    assert [line.split("\t")[:2] for line in done.stdout.splitlines()] == [
        ["problem", "redis.reachable"], ["problem", "broker.reachable"], ["unknown", "workers.alive"],
    ]  # fmt: skip
    assert "pw@" not in done.output


def test_another_broker_is_looked_into(redis_url: str, fleet_name: str, announce: Announce) -> None:
    """RabbitMQ: messages on a queue that nobody reads."""
    try:
        with Connection(RABBITMQ, connect_timeout=10) as connection:
            connection.connect()
            queue = connection.SimpleQueue(f"turnfleet.{fleet_name}")
            queue.put({})
    except OSError:
        pytest.skip("no RabbitMQ at TURNFLEET_TEST_AMQP_URL (else 127.0.0.1:5672): not run")
    try:
        announce(queues=["another"])
        troubles = found(command_for(redis_url, fleet_name), "doctor", "--json", "--broker", RABBITMQ)
        assert f"queue 'turnfleet.{fleet_name}' has 1 message" in troubles["queues.unread"]["seen"]
        assert set(troubles) == {"queues.unread"}
    finally:
        with Connection(RABBITMQ) as connection:
            channel: Any = connection.default_channel
            channel.queue_delete(f"turnfleet.{fleet_name}")
            channel.exchange_delete(f"turnfleet.{fleet_name}")


def test_messages_under_a_key_prefix_are_seen(own_redis_url: str) -> None:
    """They wait under the prefix, as everything of that fleet does; another fleet's queue is empty."""
    with Fleet(own_redis_url, name="shop", key_prefix="team-a:") as fleet:
        fleet.enqueue(PLAN, "please")
    for prefix, messages in (("team-a:", 1), ("team-b:", 0)):
        seen = look_into(own_redis_url, Keys("shop", key_prefix=prefix), ["turnfleet.shop"], timeout=5)
        assert (seen.error, seen.depths) == (None, {"turnfleet.shop": messages})
