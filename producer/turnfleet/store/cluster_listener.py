"""Hears what is published in a cluster: each channel at the node that has its slot, and after it when it moves."""

import asyncio

from redis.exceptions import RedisError

from turnfleet.store.cluster import AsyncCluster
from turnfleet.store.listener import AsyncListener, Subscription
from turnfleet.store.topology import Node

RETRY_SECONDS = 0.2


class ClusterListener:
    """All subscriptions of one executor: a connection for each node that has a channel which somebody follows."""

    def __init__(self, cluster: AsyncCluster) -> None:
        self._cluster = cluster
        self._at_node: dict[Node, AsyncListener] = {}
        self._homes: dict[Subscription, AsyncListener | None] = {}
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        cluster.moved = self._changed.set

    def subscribe(self, channel: str) -> Subscription:
        """Return a subscription that has not begun."""
        return Subscription(self, channel)

    def add(self, subscription: Subscription) -> None:
        """Begin a subscription, as soon as its node is known."""
        self._homes[subscription] = None
        self._changed.set()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def remove(self, subscription: Subscription) -> None:
        """End a subscription."""
        home = self._homes.pop(subscription, None)
        if home is not None:
            await home.remove(subscription)
        if not self._homes:
            await self._stop()

    async def aclose(self) -> None:
        """End every subscription."""
        for subscription in self._homes:
            subscription.end()
        self._homes.clear()
        await self._stop()
        for listener in self._at_node.values():
            await listener.aclose()

    async def _stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            try:
                await self._settle()
            except (RedisError, OSError):
                # Nobody says who has what: readers look at the log meanwhile, as they do whenever it is silent.
                await asyncio.sleep(RETRY_SECONDS)
                continue
            await self._changed.wait()

    async def _settle(self) -> None:
        """Bring each subscription to the node that has its channel."""
        for subscription in list(self._homes):
            wanted = self._listener(await self._cluster.node_of(subscription.channel))
            home = self._homes.get(subscription, wanted)
            if home is wanted:
                continue
            if home is not None:
                await home.remove(subscription)
            if subscription in self._homes:
                self._homes[subscription] = wanted
                wanted.add(subscription)

    def _listener(self, node: Node) -> AsyncListener:
        if node not in self._at_node:
            self._at_node[node] = AsyncListener(self._cluster.server(node).client, self._lost)
        return self._at_node[node]

    def _lost(self) -> None:
        self._cluster.doubt()
        self._changed.set()
