"""A real Redis Cluster of the tests' own: three masters on loopback, each with a replica if it is asked for."""

from collections.abc import Iterable
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

import redis
from redis.crc import key_slot

from support.certificates import HOST, Authority, as_arguments
from support.ports import free_port
from support.redis_server import RedisServer
from support.waiting import eventually

SLOTS = 16384
OPTIONS = ("--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--repl-diskless-sync-delay", "0")


class RedisCluster:
    """`with RedisCluster() as cluster:` starts it, made by hand as `redis-cli --cluster create` would.

    With an `authority` its nodes speak TLS, with each other and to clients with a certificate, and are known by the
    name that stands in their own. What the tests themselves tell the nodes goes to ports without it.
    """

    def __init__(self, *, replicas: bool = False, authority: Authority | None = None) -> None:
        self._authority = authority
        self._tls_ports: dict[RedisServer, int] = {}
        self.masters = [RedisServer(*OPTIONS) for _ in range(3)]
        self.replicas = [RedisServer(*OPTIONS) for _ in range(3 if replicas else 0)]
        self._bus: dict[RedisServer, int] = {}
        self._stack = ExitStack()

    @property
    def url(self) -> str:
        """The URL that clients are given: one node that is there, behind one that is not."""
        if self._authority is not None:
            return self.secured(self._authority.url_options)
        return f"redis+cluster://127.0.0.1:1,127.0.0.1:{self.masters[1].port}"

    def secured(self, tls_options: str, *, host: str = HOST) -> str:
        """Give the URL with TLS: as it should be, or with something wrong."""
        return f"rediss+cluster://{host}:1,{host}:{self._tls_ports[self.masters[1]]}?{tls_options}"

    @property
    def servers(self) -> list[RedisServer]:
        """Every node."""
        return [*self.masters, *self.replicas]

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for server in self.servers:
                stack.callback(server.close)
                stack.callback(server.kill)
                # The bus' port would be the client's and 10,000, which may be taken, or no port at all.
                self._bus[server] = free_port()
                server.options = (*server.options, "--cluster-port", str(self._bus[server]), *self._tls(server))
                server.start()
            self._make()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def _tls(self, server: RedisServer) -> list[str]:
        if self._authority is None:
            return []
        self._tls_ports[server] = free_port()
        options = self._authority.server_options(self._tls_ports[server], clients=True)
        options |= {"tls-cluster": "yes", "cluster-announce-hostname": HOST}
        return as_arguments(options | {"cluster-preferred-endpoint-type": "hostname"})

    def port_of(self, server: RedisServer) -> int:
        """Return the port that clients are told of."""
        return self._tls_ports.get(server, server.port)

    def _make(self) -> None:
        share = SLOTS // len(self.masters)
        for place, server in enumerate(self.masters):
            last = SLOTS - 1 if server is self.masters[-1] else (place + 1) * share - 1
            tell(server, "CLUSTER", "ADDSLOTSRANGE", place * share, last)
            tell(server, "CLUSTER", "SET-CONFIG-EPOCH", place + 1)
        for server in self.servers[1:]:
            first = self.masters[0]
            tell(server, "CLUSTER", "MEET", "127.0.0.1", self.port_of(first), self._bus[first])
        eventually(lambda: all(self._knows_all(server) for server in self.servers), what="the nodes met")
        for master, replica in zip(self.masters, self.replicas, strict=False):
            eventually(lambda r=replica, m=master: _replicate(r, m), what="the replica follows")  # type: ignore[misc]
        eventually(lambda: all(_is_well(server) for server in self.servers), what="the cluster is well")
        for replica in self.replicas:
            eventually(lambda r=replica: _in_step(r), what="the replica is in step")  # type: ignore[misc]

    def _knows_all(self, server: RedisServer) -> bool:
        return str(tell(server, "CLUSTER", "NODES")).count("connected") >= len(self.servers)

    def node_of(self, key: str) -> RedisServer:
        """Return the server that says of itself that it has a key's slot."""
        ports = {server.port: server for server in self.servers}
        for server in self.servers:
            if server.process is None:
                continue
            for first, last, (_, port, *_) in _masters(server):
                if first <= key_slot(key.encode()) <= last:
                    return ports[port]
        raise AssertionError(f"no node has {key}")

    def replaced(self, dead: RedisServer) -> bool:
        """Whether every node that lives knows who has the slots of one that died, and all is well again."""
        alive = [server for server in self.servers if server is not dead]
        ports = {port for server in alive for _, _, (_, port, *_) in _masters(server)}
        return dead.port not in ports and all(_is_well(server) for server in alive)

    def caught_up(self, master: RedisServer) -> bool:
        """Whether the replica has all that its master wrote; a failover loses the rest."""
        with redis.Redis(port=master.port) as client:
            info = client.info("replication")
        return bool(info["slave0"]["offset"] >= info["master_repl_offset"])

    def begin_move(self, key: str) -> tuple[RedisServer, RedisServer]:
        """Announce that a key's slot moves to another node; give both."""
        source = self.node_of(key)
        target = next(server for server in self.masters if server is not source)
        slot = key_slot(key.encode())
        tell(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", node_id(source))
        tell(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", node_id(target))
        return source, target

    def move_keys(self, key: str, source: RedisServer, target: RedisServer, count: int = 1_000) -> int:
        """Move up to `count` keys of the slot; give how many were moved."""
        keys = tell(source, "CLUSTER", "GETKEYSINSLOT", key_slot(key.encode()), count)
        if keys:
            tell(source, "MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
        return len(keys)

    def end_move(self, key: str, source: RedisServer, target: RedisServer) -> None:
        """Move what is left, and tell every master who has the slot now."""
        while self.move_keys(key, source, target):
            pass
        for server in (target, source, *(each for each in self.masters if each not in (source, target))):
            tell(server, "CLUSTER", "SETSLOT", key_slot(key.encode()), "NODE", node_id(target))

    def keys(self) -> Iterable[bytes]:
        """Give every key of every master."""
        for server in self.masters:
            if server.process is not None:
                yield from tell(server, "KEYS", "*")


def tell(server: RedisServer, *words: Any) -> Any:
    """Send one command to one node, and give its answer as it comes."""
    with redis.Redis(port=server.port, socket_timeout=10) as client:
        answer = client.execute_command(*words)
    return answer.decode() if isinstance(answer, bytes) else answer


def node_id(server: RedisServer) -> str:
    """Return a node's id."""
    return str(tell(server, "CLUSTER", "MYID"))


def _masters(server: RedisServer) -> list[tuple[int, int, Any]]:
    return [(first, last, master) for first, last, master, *_ in tell(server, "CLUSTER", "SLOTS")]


def _is_well(server: RedisServer) -> bool:
    return "cluster_state:ok" in str(tell(server, "CLUSTER", "INFO"))


def _replicate(replica: RedisServer, master: RedisServer) -> bool:
    try:
        tell(replica, "CLUSTER", "REPLICATE", node_id(master))
    except redis.ResponseError:
        return False  # it has not heard of the master yet
    return True


def _in_step(replica: RedisServer) -> bool:
    with redis.Redis(port=replica.port, socket_timeout=5) as client:
        return bool(client.info("replication").get("master_link_status") == "up")
