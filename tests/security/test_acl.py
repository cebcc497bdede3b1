"""Users with the least they need do all that a fleet does, and nothing else: a real server with our aclfile."""

import asyncio
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from cli.shared import command_for, told
from redis.exceptions import NoPermissionError
from support.command_line import run_command
from support.flower_process import FlowerProcess
from support.redis_server import RedisServer
from support.waiting import eventually
from support.worker_process import WorkerProcess

from turnfleet import Approve, AsyncFleet, Fleet, FleetUnavailable, PlanSpec, StoreError
from turnfleet.store import Keys
from turnfleet.store.scripts import names, script
from turnfleet.wire.acl import acl_rules
from turnfleet_worker import Registry, create_app
from turnfleet_worker.backlog import Backlog

PLAN = PlanSpec(name="desk", model="desk", tools=("refund",))
USERS = ("producer", "worker", "monitor")
FLEET, PREFIX, DATABASE = "shop", "team-a:", 3


class Guarded:
    """A server that knows our three users, each with its own name as its password."""

    def __init__(self, server: RedisServer, admin: Any, prefix: str) -> None:
        self.server = server
        self.admin = admin
        self.place: Any = {"name": FLEET, "key_prefix": prefix}

    def url(self, user: str) -> str:
        """Give the URL of a user."""
        return f"redis://{user}:{user}@127.0.0.1:{self.server.port}/{DATABASE}"

    def client(self, user: str) -> redis.Redis:
        """Give a plain client of a user."""
        return redis.Redis.from_url(self.url(user))

    def refused(self) -> list[tuple[str, str, str]]:
        """Take what the server has refused: who, why, and what."""
        entries: list[Any] = self.admin.acl_log()
        self.admin.acl_log_reset()
        return [(entry["username"], entry["reason"], entry["object"]) for entry in entries]


@pytest.fixture(params=[PREFIX, ""], ids=["prefix", "plain"], scope="module")
def guarded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """Give a server that was started with what `turnfleet acl` prints."""
    folder = tmp_path_factory.mktemp("acl")
    printed = run_command(
        "--fleet", FLEET, "--key-prefix", request.param, "acl", "--database", str(DATABASE), folder=folder
    )
    assert printed.returncode == 0, printed.stderr
    (folder / "users.acl").write_text(printed.stdout)
    server = RedisServer("--aclfile", str(folder / "users.acl"))
    server.start()
    with redis.Redis(port=server.port, db=DATABASE, decode_responses=True) as admin:
        for user in USERS:
            admin.execute_command("ACL", "SETUSER", user, f">{user}")
        yield Guarded(server, admin, request.param)
    server.close()


@pytest.mark.slow
def test_a_fleet_works_with_no_more_than_it_was_given(guarded: Guarded) -> None:
    """Producer, worker, Flower and the commands that look: everything they do, and not one refusal by the server."""
    guarded.refused()
    env = {
        "TURNFLEET_REDIS_URL": guarded.url("worker"),
        "TURNFLEET_NAME": FLEET,
        "TURNFLEET_KEY_PREFIX": guarded.place["key_prefix"],
    }
    with (
        WorkerProcess("security.apps.desk", env=env) as worker,
        FlowerProcess("security.apps.desk", env={**env, "TURNFLEET_REDIS_URL": guarded.url("monitor")}) as flower,
        Fleet(guarded.url("producer"), **guarded.place) as fleet,
        Fleet(guarded.url("monitor"), **guarded.place) as watching,
    ):
        run = fleet.enqueue(PLAN, "please", run_id="run-1", thread_id="t", tenant="acme", expires=600)
        fleet.enqueue(PLAN, "please", run_id="run-2", thread_id="t", double_text="interrupt")
        assert list(fleet.run("run-2").events(until="pause", timeout=60))[-1].kind == "approval"
        assert run.status().state == "cancelled"
        (waiting,) = watching.run("run-2").interrupts()
        fleet.run("run-2").resume({waiting.id: Approve()}, by="ann", roles=("finance",))
        assert [event.kind for event in watching.run("run-2").events(timeout=60)][-1] == "done"
        assert asyncio.run(_follow(guarded)) == "done"
        later = fleet.enqueue(PLAN, "later", run_id="run-3", countdown=600)
        assert later.cancel()
        assert later.delete()
        assert [status.run_id for status in watching.runs(tenant="acme").items] == ["run-1"]
        assert watching.interrupts().items == ()
        assert [each["worker"].rpartition(":")[2] for each in watching.workers()] == [str(worker.pid)]
        eventually(lambda: worker.hostname in flower.get("/api/workers?refresh=1"), what="the worker in Flower")
        eventually(lambda: flower.find("run-2").get("run-2"), what="the run in Flower")
        assert [queue["messages"] for queue in flower.get("/api/queues/length")["active_queues"]] == [0]
        assert "maxmemory-policy" not in worker.log  # it could look: INFO is enough
    assert guarded.refused() == []


async def _follow(guarded: Guarded) -> str:
    async with AsyncFleet(guarded.url("producer"), **guarded.place) as fleet:
        return [event.kind async for event in fleet.run("run-2").events(timeout=60)][-1]


def tried(client: Any, *words: str) -> str:
    """Give what the server answers to a command: the error's text, or "done"."""
    try:
        client.execute_command(*words)
    except NoPermissionError as error:
        return str(error)
    except redis.ResponseError as error:
        return f"done ({error})"
    return "done"


FORBIDDEN: list[tuple[str, ...]] = [
    ("FLUSHALL",),
    ("CONFIG", "SET", "maxmemory-policy", "allkeys-lru"),
    ("CONFIG", "GET", "requirepass"),
    ("KEYS", "*"),
    ("SCAN", "0"),
    ("MONITOR",),
    ("CLIENT", "KILL", "TYPE", "normal"),
    ("CLIENT", "LIST"),
    ("ACL", "LIST"),
    ("SHUTDOWN",),
    ("GET", "somebody's"),
    ("HGETALL", "{other:0}:r:run"),
    ("HSET", "{other:0}:r:run", "plan", "{}"),
    ("EVAL", "return redis.call('GET', KEYS[1])", "1", "somebody's"),
    ("EVAL", "return redis.call('FLUSHALL')", "0"),
    ("LPUSH", "turnfleet.other", "message"),
    ("LPUSH", "turnfleet.shop2", "message"),
    ("PUBLISH", "/3.turnfleet.other.control.pidbox", "shutdown"),
    ("SUBSCRIBE", "{other:0}:e:run"),
    ("PSUBSCRIBE", "*"),
]


@pytest.mark.parametrize("user", USERS)
def test_nobody_reaches_beyond_the_fleet(guarded: Guarded, user: str) -> None:
    """Not the server's settings, not its other keys and channels, not another fleet, not by way of a script."""
    with guarded.client(user) as client:
        assert [words for words in FORBIDDEN if not _refuses(tried(client, *words))] == []
    guarded.refused()


def _refuses(answer: str) -> bool:
    return bool(re.search(r"no permissions|can't run this|can't access", answer))


def test_who_may_only_look_changes_nothing(guarded: Guarded) -> None:
    """No run is created, decided, cancelled or forgotten by the monitor, and no message is put on the queue."""
    with (
        Fleet(guarded.url("producer"), **guarded.place) as fleet,
        Fleet(guarded.url("monitor"), **guarded.place) as watching,
        guarded.client("monitor") as client,
    ):
        fleet.enqueue(PLAN, "please", run_id="seen", countdown=600)
        before = fleet.run("seen").status()
        acts: list[Callable[[], object]] = [
            lambda: watching.enqueue(PLAN, "please"),
            lambda: watching.run("seen").cancel("no"),
        ]
        for act in acts:
            with pytest.raises(StoreError, match=r"can't run this command.*; the user in its URL may not do that"):
                act()
        record = Keys(FLEET, key_prefix=guarded.place["key_prefix"]).record("seen")
        for words in (
            ("DEL", record),
            ("HSET", record, "plan", "{}"),
            ("LPUSH", f"{guarded.place['key_prefix']}turnfleet.shop", "m"),
        ):
            assert _refuses(tried(client, *words)), words
        assert fleet.run("seen").status() == before
        fleet.run("seen").cancel()
        fleet.run("seen").delete()
    guarded.refused()


def test_the_doctor_needs_no_more_than_the_monitor_has(guarded: Guarded) -> None:
    """But for one setting of the server that no user of ours may ask for, and a queue that nobody granted."""

    def doctor() -> dict[str, dict[str, str]]:
        place = ("--fleet", FLEET, "--key-prefix", guarded.place["key_prefix"])
        findings = told(command_for(guarded.url("monitor"), FLEET)(*place, "doctor", "--json"))["findings"]
        return {each["check"]: each for each in findings}

    def unknown(findings: dict[str, dict[str, str]]) -> set[str]:
        return {check for check, finding in findings.items() if finding["severity"] == "unknown"}

    with Fleet(guarded.url("producer"), **guarded.place) as fleet:
        fleet.enqueue(PLAN, "please", run_id="waits")
        seen = doctor()
        assert unknown(seen) == {"redis.fsync"}
        assert seen["broker.reachable"]["seen"].endswith("; 1 message waiting")
        with pytest.raises(FleetUnavailable, match="turnfleet acl --queue NAME"):
            fleet.enqueue(PLAN, "please", run_id="stray", queue="stray")
        seen = doctor()
        assert unknown(seen) == {"redis.fsync", "broker.queues"}
        assert seen["broker.queues"]["seen"].endswith("looked into: stray")
        assert "turnfleet acl --queue NAME" in seen["broker.queues"]["advice"]
        _forget(guarded, fleet, "waits", "stray")


def test_one_closed_queue_hides_no_other_from_the_sweep(guarded: Guarded, caplog: pytest.LogCaptureFixture) -> None:
    """Else a backlog on the others would be offered again and again. The log says so once, and what to do."""
    with Fleet(guarded.url("producer"), **guarded.place) as fleet:
        fleet.enqueue(PLAN, "please", run_id="open")
        app = create_app(Registry(), guarded.url("worker"), **guarded.place)
        backlog = Backlog(app)
        for queues in (("turnfleet.shop", "stray"), ("turnfleet.shop",), ("stray", "turnfleet.shop")):
            assert backlog.oldest(queues) == {("turnfleet.shop", 5): "open"}
        (warning,) = [record.getMessage() for record in caplog.records if record.name == "turnfleet_worker.backlog"]
        assert "the queue 'stray'" in warning
        assert "turnfleet acl --queue stray" in warning
        _forget(guarded, fleet, "open")


def _forget(guarded: Guarded, fleet: Fleet, *run_ids: str) -> None:
    """Leave no run, no message and no refusal to the next test."""
    for run_id in run_ids:
        fleet.run(run_id).cancel()
        fleet.run(run_id).delete()
    for each in guarded.admin.keys(f"{guarded.place['key_prefix']}turnfleet.{FLEET}*"):
        guarded.admin.delete(each)
    guarded.refused()


def test_a_queue_of_ones_own_is_granted_by_name(guarded: Guarded) -> None:
    """`turnfleet acl --queue`: its lists and its binding, before the prefix and behind it."""
    guarded.refused()
    rules = acl_rules(Keys(FLEET, key_prefix=PREFIX), database=DATABASE, queues=("fast",))
    guarded.admin.execute_command("ACL", "SETUSER", "other", "reset", "on", ">other", *_words(rules["producer"]))
    with Fleet(guarded.url("other"), name=FLEET, key_prefix=PREFIX) as fleet:
        run = fleet.enqueue(PLAN, "please", run_id="fast-one", queue="fast", priority=0)
        assert run.cancel()
        run.delete()
    assert guarded.refused() == []
    guarded.admin.execute_command("ACL", "DELUSER", "other")


def _words(rules: str) -> list[str]:
    return re.findall(r"\([^)]*\)|\S+", rules)


WORKERS_OWN = {"claim", "step", "beat", "pause", "finish", "release", "park", "sweep", "sweep_lock", "announce"}


@pytest.mark.parametrize("user", ["producer", "worker"])
def test_every_command_of_a_script_is_granted_to_whoever_runs_it(user: str) -> None:
    """A script that learns a command breaks fleets whose users were printed before: it is noticed here, not there."""
    rules, _, _ = acl_rules(Keys(FLEET))[user].partition("(")
    granted = {word[1:].upper() for word in rules.split() if word.startswith("+")}
    scripts = set(names()) - (WORKERS_OWN if user == "producer" else set())
    texts = [text for name in scripts for text in script(name).texts.values()]
    used = {word for text in texts for word in re.findall(r"redis\.p?call\('(\w+)'", text)}
    assert used - granted == set()
