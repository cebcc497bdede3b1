"""The nodes of a Redis Cluster, and which of them a key is at; with await and without it.

A command goes to the master of its key's slot. Nothing is followed from node to node: whenever a node may have been the
wrong one, a node is asked anew who has what, and the command is sent again if it did nothing (docs/design/cluster.md).
"""

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import redis
import redis.asyncio as aredis
from redis.exceptions import ClusterDownError, RedisError

from turnfleet.store import calls
from turnfleet.store.command import Command
from turnfleet.store.place import ClusterPlace, open_async_client, open_client
from turnfleet.store.server import AsyncServer, SyncServer
from turnfleet.store.topology import WORDS, Node, Topology, read_topology, to_ask


class AsyncCluster:
    """The nodes of one cluster, for one event loop. `timeout` (seconds) bounds each wait for one of them."""

    def __init__(self, place: ClusterPlace, timeout: float) -> None:
        self._place = place
        self._timeout = timeout
        self._servers: dict[Node, AsyncServer] = {}
        self._topology = Topology()
        self._stale = True
        self._asking = asyncio.Lock()
        self.moved: Callable[[], None] = lambda: None
        """Called when the topology is another than before."""

    async def run(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Run commands on one key where it is; give each one's reply, or the exception that came in its place."""
        try:
            server = self.server(await self.node_of(commands[0].key))
        except (RedisError, OSError) as error:
            return [error] * len(commands)
        results = await server.run(commands)
        if calls.misplaced(results):
            self.doubt()
        return results

    async def node_of(self, key: str | bytes) -> Node:
        """Return the node that has a key. Raises what redis raises when no node answers, or none has it."""
        node = (await self.topology()).master(key)
        if node is None:
            self.doubt()
            raise ClusterDownError("no node has the slot")
        return node

    async def topology(self) -> Topology:
        """Return who has what: what is known, or what a node says when that is in doubt."""
        async with self._asking:
            if self._stale:
                known, self._topology = self._topology, await self._ask()
                self._stale = False
                if self._topology != known:
                    self.moved()
            return self._topology

    def doubt(self) -> None:
        """Ask anew before the next use."""
        self._stale = True

    def server(self, node: Node) -> AsyncServer:
        """Return a node's server, with connections of its own."""
        if node not in self._servers:
            client = open_async_client(self._place.url_of(node), self._timeout)
            self._servers[node] = AsyncServer(client, "sharded")
        return self._servers[node]

    async def clients(self) -> tuple[aredis.Redis, ...]:
        """Return a client of each master."""
        return tuple(self.server(node).client for node in (await self.topology()).masters)

    async def aclose(self) -> None:
        """Close the connections."""
        for server in self._servers.values():
            await server.client.aclose()

    async def _ask(self) -> Topology:
        nodes = to_ask(self._topology, self._place.nodes)
        for node in nodes:
            try:
                return read_topology(await self.server(node).client.execute_command(*WORDS), node)  # type: ignore[no-untyped-call]
            except (RedisError, OSError):
                if node == nodes[-1]:
                    raise
        raise ClusterDownError("no node to ask")


class SyncCluster:
    """The nodes of one cluster; threads may share it. `timeout` (seconds) bounds each wait for one of them."""

    def __init__(self, place: ClusterPlace, timeout: float) -> None:
        self._place = place
        self._timeout = timeout
        self._servers: dict[Node, SyncServer] = {}
        self._topology = Topology()
        self._stale = True
        self._lock = threading.Lock()

    def run(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Run commands, those of one node in one write; give each one's reply, or the exception in its place."""
        results: list[Any] = [None] * len(commands)
        places: defaultdict[Node, list[int]] = defaultdict(list)
        for place, command in enumerate(commands):
            try:
                places[self.node_of(command.key)].append(place)
            except (RedisError, OSError) as error:
                results[place] = error
        for node, where in places.items():
            for place, result in zip(where, self.server(node).run([commands[each] for each in where]), strict=True):
                results[place] = result
        if calls.misplaced(results):
            self.doubt()
        return results

    def node_of(self, key: str | bytes) -> Node:
        """Return the node that has a key. Raises what redis raises when no node answers, or none has it."""
        node = self.topology().master(key)
        if node is None:
            self.doubt()
            raise ClusterDownError("no node has the slot")
        return node

    def topology(self) -> Topology:
        """Return who has what: what is known, or what a node says when that is in doubt."""
        with self._lock:
            if self._stale:
                self._topology = self._ask()
                self._stale = False
            return self._topology

    def doubt(self) -> None:
        """Ask anew before the next use."""
        self._stale = True

    def server(self, node: Node) -> SyncServer:
        """Return a node's server, with connections of its own."""
        found = self._servers.get(node)
        if found is None:
            made = SyncServer(open_client(self._place.url_of(node), self._timeout), "sharded")
            found = self._servers.setdefault(node, made)
        return found

    def clients(self) -> tuple[redis.Redis, ...]:
        """Return a client of each master."""
        return tuple(self.server(node).client for node in self.topology().masters)

    def close(self) -> None:
        """Close the connections."""
        for server in self._servers.values():
            server.client.close()

    def _ask(self) -> Topology:
        nodes = to_ask(self._topology, self._place.nodes)
        for node in nodes:
            try:
                return read_topology(self.server(node).client.execute_command(*WORDS), node)  # type: ignore[no-untyped-call]
            except (RedisError, OSError):
                if node == nodes[-1]:
                    raise
        raise ClusterDownError("no node to ask")
