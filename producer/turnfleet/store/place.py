"""Which server a URL means: the one at an address, whichever Sentinel says is a service's master now, or a cluster.

Sentinel's form is `redis+sentinel://host[:port][,host[:port]...]/service[/db]` (`sentinel.py`).

A cluster's form is `redis+cluster://[user:password@]host[:port][,host[:port]...]` (`rediss+cluster` with TLS, and then
with redis-py's options, as `?ssl_ca_certs=...`): some of its nodes, of which one must answer; they know the others.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import redis
import redis.asyncio as aredis
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from turnfleet.errors import InvalidAddress
from turnfleet.store.hosts import bracketed, read_hosts
from turnfleet.store.sentinel import SENTINEL_TIMEOUT_SECONDS, sentinel_place
from turnfleet.store.watch import AsyncWatch, Watch

SOCKET_SCHEME: Final = "unix"
TLS_SCHEME: Final = "rediss"
CLUSTER_SCHEMES: Final = {"redis+cluster": "redis", "rediss+cluster": "rediss"}
"""A cluster's schemes, and the one of each of its nodes."""

_ONE_SERVER: Final = frozenset({"redis", TLS_SCHEME, SOCKET_SCHEME})
REDIS_PORT: Final = 6379
_UNREADABLE: Final = (
    "the URL makes no sense: a Redis is redis://, rediss:// or unix://, with its port as a number, and in a password "
    "characters such as @ : / ? # % are written as %40 %3A %2F %3F %23 %25"
)

# What a client made from a URL is made with. No retry of redis-py's own: only a command knows whether it may be
# repeated. RESP2 reads the same from every server this runs on.
CLIENT_OPTIONS: Final[dict[str, Any]] = {"decode_responses": False, "protocol": 2}


@dataclass(frozen=True, slots=True)
class ClusterPlace:
    """A Redis Cluster: `nodes` to ask first, and how each of its nodes is spoken to."""

    nodes: tuple[tuple[str, int], ...]
    scheme: str
    login: str
    query: str

    def url_of(self, node: tuple[str, int]) -> str:
        """Return the URL of one node."""
        host, port = node
        login = f"{self.login}@" if self.login else ""
        return f"{self.scheme}://{login}{bracketed(host)}:{port}/0{self.query}"


def cluster_place(url: str) -> ClusterPlace | None:
    """Read a URL of a cluster's form; None for any other. Raises `InvalidAddress`, not quoting it, for nonsense."""
    parts = urlsplit(url)
    scheme = CLUSTER_SCHEMES.get(parts.scheme)
    if scheme is None:
        return None
    login, _, hosts = parts.netloc.rpartition("@")
    nodes = read_hosts(hosts, REDIS_PORT)
    if not nodes or parts.path.strip("/") not in {"", "0"}:
        raise InvalidAddress(
            "a cluster's URL reads redis+cluster://host:port[,host:port...]; a cluster has no databases"
        )
    return ClusterPlace(nodes, scheme, login, f"?{parts.query}" if parts.query else "")


def address(url: str) -> str:
    """Return where a URL points, without names, passwords and options."""
    try:
        place = sentinel_place(url)
        if place is not None:
            return f"service {place.service!r} of {', '.join(f'{host}:{port}' for host, port in place.sentinels)}"
        cluster = cluster_place(url)
        if cluster is not None:
            return f"the cluster of {', '.join(f'{host}:{port}' for host, port in cluster.nodes)}"
        parts = urlsplit(url)
        host, port = parts.hostname or "localhost", parts.port or REDIS_PORT
    except ValueError:
        return "the given URL"
    return "its socket" if parts.scheme == SOCKET_SCHEME else f"{host}:{port}"


def hide(text: str, url: str) -> str:
    """Return a text without the passwords of a URL, in whatever spelling they stand there."""
    try:
        parts = urlsplit(url)
        login = parts.netloc.rpartition("@")[0].partition(":")[2]
        options = parse_qsl(parts.query)
    except ValueError:
        return "its text is left out: the URL in it makes no sense"
    secrets = {login, *(value for name, value in options if name.endswith("password"))} - {""}
    spellings = {spelled for secret in secrets for spelled in (secret, unquote(secret), quote(secret, safe=""))}
    for spelled in sorted(spellings, key=len, reverse=True):
        text = text.replace(spelled, "***")
    return text


def shown(url: str) -> str:
    """Return a URL as it may be shown: each password in it replaced by three stars."""
    return hide(url, url)


def check_address(url: object) -> None:
    """Raise `InvalidAddress` for what cannot be the URL of a run store's Redis, before anything is connected."""
    if not isinstance(url, str):
        raise InvalidAddress(
            f"a URL is text, such as redis://localhost:6379/0, not a {type(url).__name__}: is the variable that should "
            "hold it unset?"
        )
    try:
        scheme = urlsplit(url).scheme
    except ValueError:
        raise InvalidAddress(_UNREADABLE) from None
    if sentinel_place(url) is not None or cluster_place(url) is not None:
        return
    with readable(url):
        if scheme not in _ONE_SERVER:
            raise InvalidAddress(_UNREADABLE)


@contextmanager
def readable(url: str) -> Iterator[None]:
    """Raise `InvalidAddress` for a URL that is none of one server, and in place of what reading it raises."""
    try:
        _ = urlsplit(url).port
        yield
    except ValueError:
        raise InvalidAddress(_UNREADABLE) from None


def open_client(url: str, timeout: float) -> redis.Redis:
    """Return a client of a URL's server, not connected. Each wait of it is at most `timeout` seconds."""
    options = _times(timeout) | {"retry": Retry(NoBackoff(), 0)} | _client_options(url)
    place = sentinel_place(url)
    if place is None:
        with readable(url):
            return redis.Redis.from_url(url, **options)
    asking = _times(min(timeout, SENTINEL_TIMEOUT_SECONDS)) | {"retry": Retry(NoBackoff(), 0)}
    watch = Watch(place.sentinels, **asking, **place.sentinel_options)
    client: redis.Redis = watch.master_for(place.service, **place.server_options, **options)  # type: ignore[no-untyped-call]
    return client


def open_async_client(url: str, timeout: float) -> aredis.Redis:
    """Return the same for use with await."""
    options = _times(timeout) | {"retry": AsyncRetry(NoBackoff(), 0)} | _client_options(url)
    place = sentinel_place(url)
    if place is None:
        with readable(url):
            return aredis.Redis.from_url(url, **options)
    asking = _times(min(timeout, SENTINEL_TIMEOUT_SECONDS)) | {"retry": AsyncRetry(NoBackoff(), 0)}
    watch = AsyncWatch(place.sentinels, **asking, **place.sentinel_options)
    client: aredis.Redis = watch.master_for(place.service, **place.server_options, **options)
    return client


def close_client(client: redis.Redis) -> None:
    """Close a client's connections, and those to the sentinels that it asked."""
    client.close()
    for each in getattr(_sentinels(client), "sentinels", ()):
        each.close()


async def close_async_client(client: aredis.Redis) -> None:
    """Do the same for a client that is used with await."""
    await client.aclose()
    for each in getattr(_sentinels(client), "sentinels", ()):
        await each.aclose()


def _sentinels(client: Any) -> Any:
    return getattr(client.connection_pool, "sentinel_manager", None)


def _client_options(url: str) -> dict[str, Any]:
    # A Unix socket has no keepalive, and redis-py refuses to be told of one.
    return CLIENT_OPTIONS | ({} if urlsplit(url).scheme == SOCKET_SCHEME else {"socket_keepalive": True})


def _times(seconds: float) -> dict[str, Any]:
    return {"socket_timeout": seconds, "socket_connect_timeout": seconds}
