"""What is wrong with a URL that somebody typed, said without repeating it: it may hold a password."""

from urllib.parse import urlsplit

REDIS_FORMS = (
    "redis://, rediss:// or unix://, or redis+sentinel://host:port[,host:port...]/service, or "
    "redis+cluster://host:port[,host:port...] (with TLS: rediss+sentinel://, rediss+cluster://)"
)
BROKER_FORMS = "a Redis URL, or amqp:// for RabbitMQ"
_ENCODE = "user and password percent-encoded (@ is %40, / is %2F, : is %3A)"


def redis_fault(url: str) -> str | None:
    """Say why a URL cannot be a run store's; None when it can. Nothing is connected."""
    from turnfleet.errors import InvalidAddress  # noqa: PLC0415 - redis-py takes long
    from turnfleet.store.place import close_client, cluster_place, open_client  # noqa: PLC0415
    from turnfleet.store.sentinel import sentinel_place  # noqa: PLC0415

    try:
        if cluster_place(url) is not None or sentinel_place(url) is not None:
            return None
    except InvalidAddress as error:
        return str(error)
    except ValueError:
        return _no_redis_url()
    try:
        _ = urlsplit(url).port if url.startswith(("redis:", "rediss:")) else None
        close_client(open_client(url, 1.0))
    except (ValueError, TypeError):
        return _no_redis_url()
    return None


def _no_redis_url() -> str:
    return f"this is no Redis URL: use {REDIS_FORMS}, with {_ENCODE}"


def broker_fault(url: str) -> str | None:
    """Say why a URL cannot be a broker's; None when it can. Nothing is connected."""
    from kombu.transport import resolve_transport  # noqa: PLC0415 - kombu takes long to load

    from turnfleet.store.place import SOCKET_SCHEME  # noqa: PLC0415
    from turnfleet.store.sentinel import SENTINEL_SCHEMES  # noqa: PLC0415

    scheme, separator, _ = url.partition("://")
    if scheme in {*SENTINEL_SCHEMES, SOCKET_SCHEME}:
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
