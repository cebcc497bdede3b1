"""What is wrong with a URL that somebody typed, said without repeating it: it may hold a password."""

from urllib.parse import urlsplit

REDIS_FORMS = (
    "redis://, rediss:// or unix://, or redis+sentinel://host:port[,host:port...]/service, or "
    "redis+cluster://host:port[,host:port...]"
)
BROKER_FORMS = "a Redis URL, or amqp:// for RabbitMQ"
_ENCODE = "user and password percent-encoded (@ is %40, / is %2F, : is %3A)"


def redis_fault(url: str) -> str | None:
    """Say why a URL cannot be a run store's; None when it can. Nothing is connected."""
    from turnfleet.store.place import close_client, cluster_place, open_client  # noqa: PLC0415 - redis-py takes long

    try:
        if cluster_place(url) is not None:
            return None
        _ = urlsplit(url).port if url.startswith(("redis:", "rediss:")) else None
        close_client(open_client(url, 1.0))
    except (ValueError, TypeError):
        return f"this is no Redis URL: use {REDIS_FORMS}, with {_ENCODE}"
    return None


def broker_fault(url: str) -> str | None:
    """Say why a URL cannot be a broker's; None when it can. Nothing is connected."""
    from kombu.transport import resolve_transport  # noqa: PLC0415 - kombu takes long to load

    from turnfleet.store.place import SENTINEL_SCHEME, SOCKET_SCHEME  # noqa: PLC0415

    scheme, separator, _ = url.partition("://")
    if scheme in {SENTINEL_SCHEME, SOCKET_SCHEME}:
        return redis_fault(url)
    try:
        if separator:
            resolve_transport(scheme)
            _ = urlsplit(url.partition(";")[0]).port
            return None
    except ImportError as error:
        return f"a broker of the kind {scheme!r} needs a library that is not installed ({error.name})"
    except (KeyError, ValueError):
        pass
    return f"this is no broker URL: use {BROKER_FORMS}, with {_ENCODE}"
