"""How a local fleet's clients reach it: the clients' own flows, with a list for a broker and fakeredis for a store."""

from collections.abc import Callable, Generator, Sequence
from typing import Generic, TypeVar

from turnfleet.client.async_line import AsyncLine
from turnfleet.client.follow import Following
from turnfleet.client.line import Line
from turnfleet.client.steps import Flow, Message
from turnfleet.store.executor import AsyncExecutor
from turnfleet_worker.testing.caller import CLOSED, LoopCaller
from turnfleet_worker.testing.site import LocalSite

T = TypeVar("T")
FleetT = TypeVar("FleetT")

URL = "redis://local-fleet"
"""What stands where an address belongs; nothing is ever connected to it."""


class LocalLine(AsyncLine):
    """The way of an `AsyncFleet`."""

    def __init__(self, site: LocalSite) -> None:
        super().__init__(URL, URL, site.keys, 0.0)
        self._site = site

    def __repr__(self) -> str:
        return f"{self._keys.fleet} in this process"

    def _open(self) -> AsyncExecutor:
        if self._site.closed:
            raise RuntimeError(CLOSED)
        return AsyncExecutor(self._site.client)

    async def _publish(self, messages: Sequence[Message]) -> None:
        self._site.broker.publish(messages)

    async def _close_broker(self) -> None:
        pass


class ThreadLine(Line, Generic[FleetT]):
    """The way of a `Fleet`: by the loop of the local fleet, on which the same flows are performed."""

    def __init__(self, name: str, caller: LoopCaller[FleetT], line: Callable[[FleetT], LocalLine]) -> None:
        self._name = name
        self._caller = caller
        self._its = line

    def __repr__(self) -> str:
        return f"{self._name} in this process"

    def perform(self, flow: Flow[T]) -> T:
        """Perform a flow to its end."""
        return self._caller.call(lambda fleet: self._its(fleet).perform(flow))

    def follow(self, channel: str, following: Following[T]) -> Generator[T, None, None]:
        """Perform a reader's steps, giving what it emits."""
        return self._caller.iterate(lambda fleet: self._its(fleet).follow(channel, following))
