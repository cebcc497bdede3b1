"""A Redis in this process whose time is a fleet's: fakeredis, by subclasses that this one server is made of.

fakeredis asks the machine for the time in two places that matter here: the command TIME, and a database's `time`, by
which keys expire. Both are this server's own; nothing global is changed.
"""

from collections import defaultdict
from typing import Any

try:
    import fakeredis
    import lupa  # noqa: F401 - what fakeredis runs scripts with; it is an extra of fakeredis
    from fakeredis import FakeServer
    from fakeredis._clients._sync import FakeRedisConnection
    from fakeredis._core._database import Database
    from fakeredis.aioredis import FakeAsyncRedisConnection
except ImportError as missing:
    raise ImportError(
        f"the testing kit needs fakeredis with Lua, in a release that it knows: pip install -U 'turnfleet[testing]' "
        f"({missing})",
        name=missing.name,
    ) from missing
from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from turnfleet_kernel.errors import TurnfleetError
from turnfleet_worker.testing.clock import FleetClock

VERSION = (7, 4)
MOST_CONNECTIONS = 1_000_000  # each is an object, and no socket: there is nothing to save
_MICROSECONDS = 1_000_000


class KitUnavailable(TurnfleetError):
    """The testing kit cannot be used as it is installed here; the text says what to install."""


class ClockedServer(FakeServer):
    """A server of one fleet."""

    def __init__(self, clock: FleetClock) -> None:
        super().__init__(version=VERSION)
        self.clock = clock
        self.dbs = defaultdict(lambda: _ClockedDatabase(self.lock, clock))

    def tell_time(self) -> list[bytes]:
        """Answer TIME: seconds, and microseconds of the second."""
        seconds, microseconds = divmod(round(self.clock.unix() * _MICROSECONDS), _MICROSECONDS)
        return [b"%d" % seconds, b"%d" % microseconds]

    def client(self) -> AsyncRedis:
        """Return a client for use with await; whoever asked for it closes it."""
        return _AsyncClient(
            server=self, version=VERSION, connection_class=_AsyncConnection, max_connections=MOST_CONNECTIONS
        )

    def sync_client(self) -> Redis:
        """Return a client for use without await."""
        client: Redis = fakeredis.FakeRedis(server=self, version=VERSION, connection_class=_Connection)
        return client

    async def check(self) -> None:
        """Raise `KitUnavailable` when this fakeredis is built otherwise than the subclasses here expect."""
        self.clock.advance(1.0)  # so that the machine's time is not mistaken for the fleet's
        client = self.client()
        try:
            before = self.clock.unix()
            await client.set("turnfleet-kit", "1", px=1)
            seconds, microseconds = await client.time()
            self.clock.advance(0.01)
            kept = await client.get("turnfleet-kit")
        finally:
            await client.aclose()
        if seconds + microseconds / _MICROSECONDS < before - 0.001 or kept is not None:
            raise KitUnavailable(
                f"time cannot be skipped on fakeredis {fakeredis.__version__}: it is built otherwise than this release "
                "of turnfleet knows. Install the fakeredis that it was tested with: pip install -U 'turnfleet[testing]'"
            )


class _ClockedDatabase(Database):
    """A database whose keys expire by the fleet's clock. Its time stands still during one command, as Redis' does."""

    def __init__(self, lock: Any, clock: FleetClock) -> None:
        self._clock = clock
        super().__init__(lock)

    @property
    def time(self) -> float:
        """The time of the command under way."""
        return self._now

    @time.setter
    def time(self, machine_time: float) -> None:
        self._now = machine_time + self._clock.skipped


class _AsyncConnection(FakeAsyncRedisConnection):
    async def _connect(self) -> None:
        await super()._connect()
        _tell_time(self._sock, self._server)


class _Connection(FakeRedisConnection):
    def _connect(self) -> Any:
        socket = super()._connect()
        _tell_time(socket, self._server)
        return socket


def _tell_time(socket: Any, server: Any) -> None:
    """Let one connection answer TIME by the fleet's clock: a command's function is looked up on its socket."""
    socket.time = server.tell_time


class _AsyncClient(fakeredis.FakeAsyncRedis):
    async def config_get(self, *_: Any, **__: Any) -> dict[str | None, str | None]:
        """Say what holds of it, though fakeredis does not know the command: it never deletes a key to make room."""
        return {"maxmemory-policy": "noeviction"}
