"""How a local fleet's clients reach it: the clients' own flows, with a list for a broker and fakeredis for a store."""

from collections.abc import Generator, Sequence
from typing import TypeVar

from turnfleet.client.async_line import AsyncLine
from turnfleet.client.follow import Following
from turnfleet.client.line import Line
from turnfleet.client.steps import Flow, Message
from turnfleet.store.executor import AsyncExecutor
from turnfleet_worker.testing.caller import CLOSED, LoopCaller
from turnfleet_worker.testing.site import LocalSite

T = TypeVar("T")

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


class ThreadLine(Line):
    """The way of a `Fleet`: by the loop of the local fleet, on which the same flows are performed."""

    def __init__(self, line: LocalLine, caller: LoopCaller) -> None:
        self._line = line
        self._caller = caller

    def __repr__(self) -> str:
        return repr(self._line)

    def perform(self, flow: Flow[T]) -> T:
        """Perform a flow to its end."""
        return self._caller.call(lambda: self._line.perform(flow))

    def follow(self, channel: str, following: Following[T]) -> Generator[T, None, None]:
        """Perform a reader's steps, giving what it emits."""
        return self._caller.iterate(self._line.follow(channel, following))

    def close(self) -> None:
        """Close the client's part of the fleet."""
        self._caller.call(self._line.aclose)
