"""Hosts and ports, as several of them stand in one URL."""

from urllib.parse import urlsplit

from turnfleet.errors import InvalidAddress


def read_hosts(text: str, port: int) -> tuple[tuple[str, int], ...]:
    """Read `host[:port][,host[:port]...]`, with `port` where none is said.

    Raises `InvalidAddress` for one without a name, ValueError for a port that is no number.
    """
    return tuple(_read_host(each, port) for each in text.split(",") if each)


def _read_host(text: str, port: int) -> tuple[str, int]:
    parts = urlsplit(f"//{text}")
    if parts.hostname is None:
        raise InvalidAddress("an address in the URL has no host name")
    return parts.hostname, parts.port or port


def bracketed(host: str) -> str:
    """Return a host as it stands in a URL."""
    return f"[{host}]" if ":" in host else host
