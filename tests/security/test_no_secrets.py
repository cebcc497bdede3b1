"""Passwords, keys and what runs are about: in no log, no page of Flower, no metric, no error, no repr."""

import base64
import json
import re
import signal
from collections.abc import Iterator
from typing import Any
from urllib.request import Request, urlopen

import pytest
import redis
from click.testing import CliRunner
from fleet.helpers import celery_message
from support.flower_process import PASSWORD, USER, FlowerProcess
from support.redis_server import RedisServer
from support.waiting import eventually
from support.worker_process import WorkerProcess

from turnfleet import Answer, Approve, Fleet, FleetUnavailable, PlanSpec, RunFailed, SigningKeys
from turnfleet.cli.main import cli
from turnfleet.store import Keys
from turnfleet_worker import Registry, create_app

MARK = "sk-live-0123456789abcdef"
LOGIN = "hunter2-the-password"
KEY = base64.b64encode(b"0123456789-a-signing-key-of-ours-0123456789").decode()
SECRETS = (LOGIN, KEY, KEY[:20], "a-signing-key-of-ours", MARK, "private-label-value")
PLAN = PlanSpec(name="careless", model="careless", tools=("look_up", "pay", "ask"), instructions=f"{MARK}-instructions")
PAGES = (
    "/",
    "/tasks",
    "/broker",
    "/metrics",
    "/worker/{worker}",
    "/task/{task}",
    "/api/tasks",
    "/api/workers?refresh=1",
)


def leaks(text: str) -> list[str]:
    """List the secrets that stand in a text."""
    return [secret for secret in SECRETS if secret in text]


@pytest.fixture
def locked_redis() -> Iterator[RedisServer]:
    """Give a server with a password."""
    server = RedisServer("--requirepass", LOGIN)
    server.start()
    yield server
    server.close()


def page(flower: FlowerProcess, path: str) -> str:
    """Give what Flower answers, whatever it is."""
    login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    request = Request(f"http://127.0.0.1:{flower.port}{path}", headers={"Authorization": f"Basic {login}"})
    with urlopen(request, timeout=60) as answer:  # noqa: S310 - the scheme stands in the line above
        return str(answer.read().decode())


@pytest.mark.slow
def test_a_worker_and_flower_show_none_of_it(locked_redis: RedisServer, fleet_name: str) -> None:
    """At the most talkative log level; runs that complete, fail, are refused; messages that are nobody's."""
    url = f"redis://:{LOGIN}@127.0.0.1:{locked_redis.port}/0"
    place = {
        "TURNFLEET_REDIS_URL": url,
        "TURNFLEET_NAME": fleet_name,
        "TURNFLEET_SIGNING_KEYS": f"k:{KEY}",
        "CARELESS_MARK": MARK,
    }
    keys = SigningKeys.from_text(f"k:{KEY}")
    with (
        WorkerProcess("security.apps.careless", env=place, options=("-l", "DEBUG")) as worker,
        FlowerProcess("security.apps.careless", env=place) as flower,
        Fleet(url, name=fleet_name, signing=keys) as fleet,
    ):
        eventually(lambda: worker.hostname in flower.get("/api/workers?refresh=1"), what="the worker in Flower")
        labels = {"team": "private-label-value"}
        run = fleet.enqueue(PLAN, f"{MARK}-prompt", run_id="whole", metadata=labels)
        for decision in (Approve(), Answer(f"{MARK}-answer")):
            assert list(run.events(until="pause", timeout=60))[-1].kind in {"approval", "question"}
            run.resume({run.interrupts()[0].id: decision}, by="ann", roles=("finance",))
            eventually(lambda: run.status().state != "queued")
        assert run.result(timeout=60).text == f"{MARK}-text"
        _refused(fleet, fleet_name, url, worker)
        eventually(lambda: {"whole", "altered"} <= set(flower.get("/api/tasks")), what="the runs in Flower")
        for path in PAGES:
            shown = page(flower, path.format(worker=worker.hostname, task="whole"))
            assert leaks(shown) == [], path
            assert len(shown) > 10
        asks = f"/api/workers?refresh=1&workername={worker.hostname}"
        conf = eventually(lambda: "broker_url" in (told := json.dumps(flower.get(asks))) and told)
        assert leaks(conf) == []
        assert leaks(flower.log) == []
        assert leaks(worker.log) == []
        assert re.search("run 'altered' does not fit its signature", worker.log)
        _commands(place)


def _refused(fleet: Fleet, name: str, url: str, worker: WorkerProcess) -> None:
    """Send what is refused: a run that was altered, and messages that nobody signed, or that are none."""
    with redis.Redis.from_url(url) as client:
        worker.send(signal.SIGSTOP)  # so that it does not come to the run before the thief does
        altered = fleet.enqueue(PLAN, f"{MARK}-prompt", run_id="altered")
        client.hset(Keys(name).record("altered"), "request", json.dumps({"prompt": f"{MARK}-altered"}))
        worker.send(signal.SIGCONT)
        queue = f"turnfleet.{name}"
        envelope = {"fleet": name, "run_id": "odd", "plan": {"name": "p", "model": MARK}, "request": {"prompt": MARK}}
        odd: list[dict[str, Any]] = [{"envelope": envelope}, {"envelope": envelope | {"v": MARK}}]
        odd += [{"envelope": MARK}, {MARK: MARK}]
        for number, kwargs in enumerate(odd):
            client.lpush(queue, json.dumps(celery_message(f"odd-{number}", kwargs, queue=queue)))
        client.lpush(queue, json.dumps(celery_message("odd-body", {}, queue=queue, body=MARK.encode())), MARK)
        with pytest.raises(RunFailed, match="does not fit its signature") as failed:
            altered.result(timeout=60)
        assert leaks(str(failed.value)) == []
        eventually(lambda: client.llen(queue) == 0, what="an empty queue")


def _commands(place: dict[str, str]) -> None:
    """Use the command with what is right, and with what is wrong."""
    wrong = {
        "a wrong password": place | {"TURNFLEET_REDIS_URL": place["TURNFLEET_REDIS_URL"].replace(LOGIN, f"{LOGIN}x")},
        "no server": place | {"TURNFLEET_REDIS_URL": f"redis://:{LOGIN}@127.0.0.1:1/0"},
        "no URL": place | {"TURNFLEET_REDIS_URL": f"redis://:{LOGIN}@127.0.0.1:port/0"},
        "no scheme": place | {"TURNFLEET_REDIS_URL": f"rediz://:{LOGIN}@127.0.0.1/0"},
        "a broken key": place | {"TURNFLEET_SIGNING_KEYS": f"k:{KEY}!"},
        "all is right": place,
    }
    for case, env in wrong.items():
        for command in (("workers",), ("doctor",)):
            ended = CliRunner(env=env).invoke(cli, command)
            assert ended.exception is None or isinstance(ended.exception, SystemExit), (case, command)
            assert leaks(ended.output) == [], (case, command)


def test_reprs_and_errors_of_clients_show_none_of_it(locked_redis: RedisServer, fleet_name: str) -> None:
    """Of the clients, of an app and its settings, and of what they raise when the password or the server is wrong."""
    keys = SigningKeys.from_text(f"k:{KEY}")
    for url in (
        f"redis://:{LOGIN}-wrong@127.0.0.1:{locked_redis.port}/0",
        f"redis://me:{LOGIN}@127.0.0.1:1/0",
        f"unix://:{LOGIN}@/nowhere/redis.sock?db=1",
    ):
        app: Any = create_app(Registry(), url, name=fleet_name, signing=keys)
        with Fleet(url, name=fleet_name, signing=keys, timeout=1) as fleet:
            texts = [repr(fleet), repr(app), repr(app.conf), app.conf.humanize(), repr(keys)]
            with pytest.raises(FleetUnavailable) as away:
                fleet.workers()
            texts += [str(away.value), repr(away.value)]
        for text in texts:
            assert leaks(text) == []
