"""A service that sentinels watch, as a URL names it: read here, opened in `place.py`.

The form is `redis+sentinel://[user:password@]host[:port][,host[:port]...]/service[/db]`. User and password are the
servers'; the sentinels' own are given as `?sentinel_username=...&sentinel_password=...`.

With `rediss+sentinel` both the sentinels and the servers are spoken to over TLS. The same `ssl_...` options hold for
both, as `?ssl_ca_certs=...`, and certificates are always checked.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs, quote, unquote, urlsplit

from turnfleet.errors import InvalidAddress
from turnfleet.store.hosts import bracketed, read_hosts

SENTINEL_SCHEMES: Final = frozenset({"redis+sentinel", "rediss+sentinel"})
"""Without TLS and with it."""

SENTINEL_PORT: Final = 26379
SENTINEL_TIMEOUT_SECONDS: Final = 1.0
"""One sentinel that does not answer must not use up the time in which the next would."""

_TLS_SCHEME: Final = "rediss+sentinel"
_LOGIN_OPTIONS: Final = frozenset({"sentinel_username", "sentinel_password"})
_TLS_OPTIONS: Final = frozenset(
    {"ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile", "ssl_password", "ssl_ciphers", "ssl_cert_reqs"}
)
_CHECKED: Final = {"ssl_cert_reqs": "required"}


@dataclass(frozen=True, slots=True)
class SentinelPlace:
    """A service that sentinels watch. `login` is the servers' user and password, `sentinel_login` the sentinels'.

    `tls`: redis-py's `ssl_...` options, for both kinds of connection; None where there is no TLS.
    """

    sentinels: tuple[tuple[str, int], ...]
    service: str
    db: int
    login: Mapping[str, str] = field(default_factory=dict)
    sentinel_login: Mapping[str, str] = field(default_factory=dict)
    tls: Mapping[str, str] | None = None

    @property
    def server_options(self) -> dict[str, Any]:
        """What redis-py must be told to speak to the service's servers."""
        return {"db": self.db, **self.login, **self._ssl}

    @property
    def sentinel_options(self) -> dict[str, Any]:
        """What redis-py must be told to speak to the sentinels."""
        return {**self.sentinel_login, **self._ssl}

    @property
    def _ssl(self) -> dict[str, Any]:
        return {} if self.tls is None else {"ssl": True, **self.tls}

    @property
    def broker_url(self) -> str:
        """The same place in kombu's form, which says the service's name apart (`master_name`), and TLS, too."""
        user, password = (quote(self.login.get(part, ""), safe="") for part in ("username", "password"))
        prefix = f"sentinel://{user}:{password}@" if self.login else "sentinel://"
        return ";".join(f"{prefix}{bracketed(host)}:{port}/{self.db}" for host, port in self.sentinels)

    @property
    def broker_options(self) -> dict[str, Any]:
        """What kombu must be told besides its URL."""
        times = {"socket_timeout": SENTINEL_TIMEOUT_SECONDS, "socket_connect_timeout": SENTINEL_TIMEOUT_SECONDS}
        return {"master_name": self.service, "sentinel_kwargs": {**times, **self.sentinel_options}}


def sentinel_place(url: str) -> SentinelPlace | None:
    """Read a URL of Sentinel's form; None for any other. Raises `InvalidAddress`, not quoting it, for nonsense."""
    parts = urlsplit(url)
    if parts.scheme not in SENTINEL_SCHEMES:
        return None
    login, _, hosts = parts.netloc.rpartition("@")
    sentinels = read_hosts(hosts, SENTINEL_PORT)
    service, _, db = parts.path.strip("/").partition("/")
    if not sentinels or not service or not (db or "0").isdigit():
        raise InvalidAddress(f"a Sentinel URL reads {parts.scheme}://host:port[,host:port...]/service[/db]")
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    with_tls = parts.scheme == _TLS_SCHEME
    _check(options, _LOGIN_OPTIONS | _TLS_OPTIONS if with_tls else _LOGIN_OPTIONS, parts.scheme)
    return SentinelPlace(
        sentinels,
        unquote(service),
        int(db or 0),
        _login(login),
        {name.removeprefix("sentinel_"): value for name, value in options.items() if name in _LOGIN_OPTIONS},
        {name: value for name, value in options.items() if name in _TLS_OPTIONS} | _CHECKED if with_tls else None,
    )


def _check(options: Mapping[str, str], known: frozenset[str], scheme: str) -> None:
    if not known.issuperset(options):
        hint = "" if known & _TLS_OPTIONS else f"; those of TLS are for {_TLS_SCHEME}://"
        raise InvalidAddress(f"a Sentinel URL, {scheme}://, takes the options {', '.join(sorted(known))} only{hint}")
    if options.get("ssl_cert_reqs", "required") != "required":
        raise InvalidAddress(
            f"a Sentinel URL, {scheme}://, takes ssl_cert_reqs=required only: certificates are always checked. An "
            "authority of your own is named with ssl_ca_certs"
        )


def _login(text: str) -> dict[str, str]:
    user, _, password = text.partition(":")
    if not password:
        return {}
    return ({"username": unquote(user)} if user else {}) | {"password": unquote(password)}
