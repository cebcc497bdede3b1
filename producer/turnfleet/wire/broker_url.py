"""One URL for store and broker: what Celery and kombu must be told for that of a Redis (`turnfleet.store.place`).

redis-py and kombu read the same addresses from different words: a socket, a database on it, Sentinel, TLS.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from turnfleet.errors import InvalidAddress
from turnfleet.store.place import (
    CLUSTER_SCHEMES,
    SOCKET_SCHEME,
    TLS_SCHEME,
    readable,
    shown,
)
from turnfleet.store.sentinel import SENTINEL_SCHEMES, sentinel_place

_REDIS_SCHEMES: Final = frozenset({"redis", TLS_SCHEME, "redis+socket", SOCKET_SCHEME, "sentinel", *SENTINEL_SCHEMES})
_AMQP_SCHEMES: Final = frozenset({"amqp", "amqps", "pyamqp", "pyamqps"})


class HiddenUrl(str):
    """A URL that shows no password when it is printed as a value, as the settings of a Celery app are."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(shown(self))


@dataclass(frozen=True, slots=True)
class BrokerPlace:
    """A broker in Celery's words: `url`, transport options, and what `broker_use_ssl` is set to (None: nothing)."""

    url: str
    redis: bool = False
    amqp: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    tls: Mapping[str, str] | None = None


def broker_place(url: str) -> BrokerPlace:
    """Read a broker's URL. Raises `InvalidAddress`, not quoting it, for one that makes no sense."""
    scheme = urlsplit(url).scheme
    if scheme in CLUSTER_SCHEMES:
        raise InvalidAddress(
            "a Redis Cluster cannot be the broker, only the run store: Celery's transport reads several lists at once. "
            "Give the broker's URL apart (broker_url=, --broker, TURNFLEET_BROKER_URL): a plain Redis or RabbitMQ"
        )
    watched = sentinel_place(url)
    if watched is not None:
        return BrokerPlace(watched.broker_url, redis=True, options=watched.broker_options, tls=watched.tls)
    with readable(url):
        return _one_server(url, scheme)


def _one_server(url: str, scheme: str) -> BrokerPlace:
    if scheme in _AMQP_SCHEMES:
        return BrokerPlace(url, amqp=True)
    if scheme not in _REDIS_SCHEMES:
        return BrokerPlace(url)
    if scheme == SOCKET_SCHEME:
        return BrokerPlace(_socket_url(url), redis=True)
    if scheme == TLS_SCHEME:
        return _with_tls(url)
    return BrokerPlace(url, redis=True)


def _socket_url(url: str) -> str:
    """Return `redis+socket://login@/path?virtual_host=5` for `unix://login@/path?db=5`."""
    parts = urlsplit(url)
    options = {("virtual_host" if name == "db" else name): value for name, value in parse_qsl(parts.query)}
    return urlunsplit(("redis+socket", parts.netloc, parts.path, urlencode(options), ""))


def _with_tls(url: str) -> BrokerPlace:
    """Take the `ssl_...` options out of the URL: Flower, too, reads them from the setting only."""
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    tls = {name: value for name, value in options.items() if name.startswith("ssl_")}
    rest = {name: value for name, value in options.items() if name not in tls}
    # Said here, because a certificate that nobody checks protects from nobody.
    return BrokerPlace(
        urlunsplit(parts._replace(query=urlencode(rest))), redis=True, tls={"ssl_cert_reqs": "required", **tls}
    )
