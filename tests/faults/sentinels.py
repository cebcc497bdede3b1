"""A pair of servers and the sentinel that watches them: real processes of the tests' own."""

import subprocess
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import redis
from support.certificates import HOST, Authority, as_arguments
from support.ports import free_port
from support.redis_server import RedisServer, server_binary
from support.waiting import eventually

SERVICE = "shop"
PASSWORD = "p@ss/of:the#servers"  # noqa: S105 - a test's own
SENTINEL_PASSWORD = "p@ss/of:the#sentinels"  # noqa: S105


ADMIN = "admin"


@dataclass(frozen=True)
class AclFiles:
    """The users of servers and of sentinels; each has its name as its password, and `default` has `ADMIN`."""

    servers: Path
    sentinels: Path


class SentinelPair:
    """`with SentinelPair() as pair:` gives a master, its replica, and one sentinel whose word is enough.

    With an `authority` all of them speak TLS, to clients with a certificate of it, and want passwords; they are known
    by the name that stands in the certificates. With `users` they are what stands in these files to one another, too,
    and two sentinels must agree.
    """

    def __init__(self, authority: Authority | None = None, users: AclFiles | None = None) -> None:
        self._authority = authority
        self._users = users
        self._tls_ports: dict[RedisServer, int] = {}
        self.master = RedisServer("--repl-diskless-sync-delay", "0")
        self.replica = RedisServer()
        for server in (self.master, self.replica):
            self._secure(server)
        self.replica.options = [*self.replica.options, "--replicaof", self._host, str(self._port_of(self.master))]
        self.sentinel_ports = [free_port() for _ in range(1 if users is None else 2)]
        self._stack = ExitStack()

    @property
    def _host(self) -> str:
        return "127.0.0.1" if self._authority is None else HOST

    def _port_of(self, server: RedisServer) -> int:
        return self._tls_ports.get(server, server.port)

    def _secure(self, server: RedisServer) -> None:
        if self._users is not None:
            options = {"aclfile": str(self._users.servers), "masteruser": "replica", "masterauth": "replica"}
            server.options = [*server.options, *as_arguments(options)]
        if self._authority is None:
            return
        self._tls_ports[server] = free_port()
        options = self._authority.server_options(self._tls_ports[server], clients=True)
        options |= {"requirepass": PASSWORD, "masterauth": PASSWORD, "replica-announce-ip": HOST}
        server.options = [*server.options, *as_arguments(options)]

    @property
    def url(self) -> str:
        """The URL that clients and workers are given, for the store and for the broker."""
        if self._authority is None:
            return f"redis+sentinel://127.0.0.1:{self.sentinel_ports[0]}/{SERVICE}/0"
        return self.secured(self._authority.url_options)

    @property
    def url_of_user(self) -> str:
        """The URL with `USER` where the login at the servers belongs."""
        hosts = ",".join(f"127.0.0.1:{port}" for port in self.sentinel_ports)
        return f"redis+sentinel://USER@{hosts}/{SERVICE}/0?sentinel_username=fleet&sentinel_password=fleet"

    def secured(self, tls_options: str, *, host: str = HOST) -> str:
        """Give the URL with TLS and the passwords: as it should be, or with something wrong."""
        login = f":{quote(PASSWORD, safe='')}"
        options = f"sentinel_password={quote(SENTINEL_PASSWORD, safe='')}&{tls_options}".removesuffix("&")
        return f"rediss+sentinel://{login}@{host}:{self.sentinel_ports[0]}/{SERVICE}/0?{options}"

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for server in (self.master, self.replica):
                stack.callback(server.close)
                # Asked kindly while it writes its first append-only file, a replica stays.
                stack.callback(server.kill)
                server.start()
            for port in self.sentinel_ports:
                self._start_sentinel(port, stack)
            eventually(self._complete, what="the sentinels know each other and the replica, and that is in step")
            self._stack = stack.pop_all()
        return self

    def _start_sentinel(self, port: int, stack: ExitStack) -> None:
        settings = self.master.folder / f"sentinel-{port}.conf"
        settings.write_text("".join(f"{line}\n" for line in self._settings(port)))
        command = [server_binary(), str(settings), "--sentinel"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        stack.callback(process.wait, 20)
        stack.callback(process.kill)

    def _settings(self, port: int) -> list[str]:
        settings = ["bind 127.0.0.1", f"dir {self.master.folder}"]
        if self._authority is None:
            settings += [f"port {port}"]
        else:
            options = self._authority.server_options(port, clients=True) | {"requirepass": SENTINEL_PASSWORD}
            settings += ["port 0", *(f"{name} {value}" for name, value in options.items())]
            settings += ["sentinel resolve-hostnames yes", "sentinel announce-hostnames yes"]
        settings += [f"sentinel monitor {SERVICE} {self._host} {self._port_of(self.master)} {len(self.sentinel_ports)}"]
        settings += [] if self._authority is None else [f'sentinel auth-pass {SERVICE} "{PASSWORD}"']
        if self._users is not None:
            settings += [
                f"aclfile {self._users.sentinels}",
                "sentinel sentinel-user peer",
                "sentinel sentinel-pass peer",
            ]
            settings += [f"sentinel auth-user {SERVICE} sentinel", f"sentinel auth-pass {SERVICE} sentinel"]
        return [
            *settings,
            f"sentinel down-after-milliseconds {SERVICE} 1000",
            f"sentinel failover-timeout {SERVICE} 3000",
        ]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def server(self, server: RedisServer) -> redis.Redis:
        """Give a client of one of the pair."""
        password = ADMIN if self._users is not None else None if self._authority is None else PASSWORD
        return redis.Redis(port=server.port, password=password, socket_timeout=2)

    def sentinels(self) -> list[redis.Redis]:
        """Give a client of each sentinel."""
        return [self._sentinel(port) for port in self.sentinel_ports]

    def _sentinel(self, port: int) -> redis.Redis:
        if self._authority is None:
            return redis.Redis(port=port, password=None if self._users is None else ADMIN, socket_timeout=2)
        options: dict[str, Any] = dict(self._authority.client_options)
        return redis.Redis(HOST, port, password=SENTINEL_PASSWORD, socket_timeout=2, **options)

    def _complete(self) -> bool:
        return all(self._knows(sentinel) for sentinel in self.sentinels()) and self._in_step()

    def _knows(self, sentinel: redis.Redis) -> bool:
        try:
            with sentinel:
                replicas: Any = sentinel.sentinel_slaves(SERVICE)
                others: Any = sentinel.sentinel_sentinels(SERVICE)
        except redis.RedisError:
            return False
        return (
            len(replicas) == 1 and replicas[0]["slave-priority"] == 100 and len(others) == len(self.sentinel_ports) - 1
        )

    def _in_step(self) -> bool:
        try:
            with self.server(self.replica) as replica:
                return bool(replica.info("replication")["master_link_status"] == "up")
        except redis.RedisError:
            return False

    def promoted(self) -> bool:
        """Whether the replica is the master now."""
        with self.server(self.replica) as replica:
            return bool(replica.role()[0] == b"master")
