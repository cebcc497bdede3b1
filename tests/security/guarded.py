"""A fleet whose users have no more rights than `turnfleet acl` printed; each has its own name as its password."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import redis
from redis.exceptions import NoPermissionError
from security.journey import APP, PLAN
from support.command_line import run_command
from support.waiting import LIMIT_SECONDS, eventually
from support.worker_process import WorkerProcess

from turnfleet import Approve, Fleet, FleetUnavailable


def users(folder: Path, *arguments: str) -> list[str]:
    """Give the lines that `turnfleet acl` prints, with passwords."""
    printed = run_command(*arguments, folder=folder)
    assert printed.returncode == 0, printed.stderr
    lines = printed.stdout.splitlines()
    return [f"{line} >{line.split()[1]}" for line in lines]


def refused(client: redis.Redis) -> list[tuple[str, str, str]]:
    """Give what a server has refused: who, why, and what."""
    entries: Any = client.acl_log()
    found = map(_named, entries)
    return [(_text(each["username"]), _text(each["reason"]), _text(each["object"])) for each in found]


def _named(entry: dict[Any, Any]) -> dict[str, Any]:
    return {_text(name): value for name, value in entry.items()}


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def passed(client: Any, commands: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Give those of the commands that the server did not refuse."""
    return [words for words in commands if not _refuses(client, words)]


def _refuses(client: Any, words: tuple[str, ...]) -> bool:
    try:
        client.execute_command(*words)
    except NoPermissionError:
        return True
    except redis.ResponseError as error:
        return "can't access" in str(error) or "can't run this command" in str(error)
    return False


class Roles:
    """Three clients of one fleet: each is the user that it should be, at the store and at the broker.

    `store` and `broker` are URLs with `USER` where the login belongs.
    """

    def __init__(self, name: str, store: str, broker: str | None = None) -> None:
        self.name = name
        self._store, self._broker = store, broker

    def place(self, user: str) -> dict[str, Any]:
        """Give the URLs of a user, as clients take them."""
        login = f"{user}:{user}"
        broker = None if self._broker is None else self._broker.replace("USER", login)
        return {"url": self._store.replace("USER", login), "broker_url": broker, "name": self.name}

    def fleet(self, user: str) -> Fleet:
        """Give a client."""
        return Fleet(**self.place(user), timeout=5, poll_interval=30)

    def worker(self) -> WorkerProcess:
        """Give a worker."""
        place = self.place("worker")
        env = {"TURNFLEET_REDIS_URL": place["url"], "TURNFLEET_NAME": self.name}
        return WorkerProcess(APP, env=env | ({"TURNFLEET_BROKER_URL": place["broker_url"]} if self._broker else {}))

    def work(self) -> None:
        """Enqueue, cancel and decide as the producer, look as the monitor; a worker does the rest."""
        with self.worker() as worker, self.fleet("producer") as fleet, self.fleet("monitor") as watching:
            run = fleet.enqueue(PLAN, "please", run_id="run-1", thread_id="t", tenant="acme", expires=600)
            fleet.enqueue(PLAN, "please", run_id="run-2", thread_id="t", double_text="interrupt")
            assert list(fleet.run("run-2").events(until="pause", timeout=LIMIT_SECONDS))[-1].kind == "approval"
            assert run.status().state == "cancelled"
            (waiting,) = watching.run("run-2").interrupts()
            fleet.run("run-2").resume({waiting.id: Approve()}, by="ann", roles=("finance",))
            assert [event.kind for event in watching.run("run-2").events(timeout=LIMIT_SECONDS)][-1] == "done"
            assert [status.run_id for status in watching.runs(tenant="acme").items] == ["run-1"]
            assert [each["worker"].rpartition(":")[2] for each in watching.workers()] == [str(worker.pid)]

    def goes_on(self, run_id: str) -> None:
        """Take a run to its pause and to its end, once there is a server again that takes it."""
        with self.worker(), self.fleet("producer") as fleet:
            run = eventually(lambda: _enqueued(fleet, run_id), what=f"run {run_id} is enqueued")
            assert list(run.events(until="pause", timeout=LIMIT_SECONDS))[-1].kind == "approval"
            (waiting,) = run.interrupts()
            run.resume({waiting.id: Approve()}, by="ann", roles=("finance",))
            assert run.result(timeout=LIMIT_SECONDS).text == "all done"


def _enqueued(fleet: Fleet, run_id: str) -> Any:
    try:
        return fleet.enqueue(PLAN, "please", run_id=run_id)
    except FleetUnavailable:
        return None
