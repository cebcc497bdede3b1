"""A pair of servers and the sentinel that watches them: real processes of the tests' own."""

import subprocess
from contextlib import ExitStack
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


class SentinelPair:
    """`with SentinelPair() as pair:` gives a master, its replica, and one sentinel whose word is enough.

    With an `authority` all of them speak TLS, to clients with a certificate of it, and want passwords; they are known
    by the name that stands in the certificates.
    """

    def __init__(self, authority: Authority | None = None) -> None:
        self._authority = authority
        self._tls_ports: dict[RedisServer, int] = {}
        self.master = RedisServer("--repl-diskless-sync-delay", "0")
        self.replica = RedisServer()
        for server in (self.master, self.replica):
            self._secure(server)
        self.replica.options = [*self.replica.options, "--replicaof", self._host, str(self._port_of(self.master))]
        self._port = free_port()
        self._stack = ExitStack()

    @property
    def _host(self) -> str:
        return "127.0.0.1" if self._authority is None else HOST

    def _port_of(self, server: RedisServer) -> int:
        return self._tls_ports.get(server, server.port)

    def _secure(self, server: RedisServer) -> None:
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
            return f"redis+sentinel://127.0.0.1:{self._port}/{SERVICE}/0"
        return self.secured(self._authority.url_options)

    def secured(self, tls_options: str, *, host: str = HOST) -> str:
        """Give the URL with TLS and the passwords: as it should be, or with something wrong."""
        login = f":{quote(PASSWORD, safe='')}"
        options = f"sentinel_password={quote(SENTINEL_PASSWORD, safe='')}&{tls_options}".removesuffix("&")
        return f"rediss+sentinel://{login}@{host}:{self._port}/{SERVICE}/0?{options}"

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for server in (self.master, self.replica):
                stack.callback(server.close)
                # Asked kindly while it writes its first append-only file, a replica stays.
                stack.callback(server.kill)
                server.start()
            settings = self.master.folder / "sentinel.conf"
            settings.write_text("".join(f"{line}\n" for line in self._settings()))
            command = [server_binary(), str(settings), "--sentinel"]
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            stack.callback(process.wait, 20)
            stack.callback(process.kill)
            eventually(self._complete, what="the sentinel knows the replica, and that is in step")
            self._stack = stack.pop_all()
        return self

    def _settings(self) -> list[str]:
        settings = ["bind 127.0.0.1", f"dir {self.master.folder}"]
        if self._authority is None:
            settings += [f"port {self._port}"]
        else:
            options = self._authority.server_options(self._port, clients=True) | {"requirepass": SENTINEL_PASSWORD}
            settings += ["port 0", *(f"{name} {value}" for name, value in options.items())]
            settings += ["sentinel resolve-hostnames yes", "sentinel announce-hostnames yes"]
        settings += [f"sentinel monitor {SERVICE} {self._host} {self._port_of(self.master)} 1"]
        settings += [] if self._authority is None else [f'sentinel auth-pass {SERVICE} "{PASSWORD}"']
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
        password = None if self._authority is None else PASSWORD
        return redis.Redis(port=server.port, password=password, socket_timeout=2)

    def sentinel(self) -> redis.Redis:
        """Give a client of the sentinel."""
        if self._authority is None:
            return redis.Redis(port=self._port, socket_timeout=2)
        options: dict[str, Any] = dict(self._authority.client_options)
        return redis.Redis(HOST, self._port, password=SENTINEL_PASSWORD, socket_timeout=2, **options)

    def _complete(self) -> bool:
        try:
            with self.sentinel() as sentinel:
                replicas: Any = sentinel.sentinel_slaves(SERVICE)
            with self.server(self.replica) as replica:
                in_step = replica.info("replication")["master_link_status"] == "up"
        except redis.RedisError:
            return False
        return bool(in_step and len(replicas) == 1 and replicas[0]["slave-priority"] == 100)

    def promoted(self) -> bool:
        """Whether the replica is the master now."""
        with self.server(self.replica) as replica:
            return bool(replica.role()[0] == b"master")
