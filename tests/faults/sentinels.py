"""A pair of servers and the sentinel that watches them: real processes of the tests' own."""

import subprocess
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

import redis
from support.redis_server import RedisServer, free_port, server_binary
from support.waiting import eventually

SERVICE = "shop"


class SentinelPair:
    """`with SentinelPair() as pair:` gives a master, its replica, and one sentinel whose word is enough."""

    def __init__(self) -> None:
        self.master = RedisServer("--repl-diskless-sync-delay", "0")
        self.replica = RedisServer("--replicaof", "127.0.0.1", str(self.master.port))
        self._port = free_port()
        self._stack = ExitStack()

    @property
    def url(self) -> str:
        """The URL that clients and workers are given, for the store and for the broker."""
        return f"redis+sentinel://127.0.0.1:{self._port}/{SERVICE}/0"

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for server in (self.master, self.replica):
                stack.callback(server.close)
                # Asked kindly while it writes its first append-only file, a replica stays.
                stack.callback(server.kill)
                server.start()
            settings = self.master.folder / "sentinel.conf"
            settings.write_text(
                f"port {self._port}\nbind 127.0.0.1\ndir {self.master.folder}\n"
                f"sentinel monitor {SERVICE} 127.0.0.1 {self.master.port} 1\n"
                f"sentinel down-after-milliseconds {SERVICE} 1000\nsentinel failover-timeout {SERVICE} 3000\n"
            )
            command = [server_binary(), str(settings), "--sentinel"]
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            stack.callback(process.wait, 20)
            stack.callback(process.kill)
            eventually(self._complete, 30, what="the sentinel knows the replica, and that is in step")
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def _complete(self) -> bool:
        try:
            with redis.Redis(port=self._port, socket_timeout=2) as sentinel:
                replicas: Any = sentinel.sentinel_slaves(SERVICE)
            with redis.Redis(port=self.replica.port, socket_timeout=2) as replica:
                in_step = replica.info("replication")["master_link_status"] == "up"
        except redis.RedisError:
            return False
        return bool(in_step and len(replicas) == 1 and replicas[0]["slave-priority"] == 100)

    def promoted(self) -> bool:
        """Whether the replica is the master now."""
        with redis.Redis(port=self.replica.port, socket_timeout=2) as replica:
            return bool(replica.role()[0] == b"master")
