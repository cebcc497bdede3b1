"""What a Redis must be configured for before a worker entrusts runs to it."""

import logging
from contextlib import suppress
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError

from turnfleet.errors import FleetUnavailable
from turnfleet.store.executor import AsyncExecutor
from turnfleet_kernel.errors import TurnfleetError

_log = logging.getLogger(__name__)


class UnsafeStore(TurnfleetError):
    """The run store's Redis may throw runs away."""


async def check_store(executor: AsyncExecutor, *, allow_eviction: bool) -> None:
    """Refuse a Redis that evicts keys (of a cluster, each master): a run that evaporates can emit no end (DESIGN 1).

    Raises `UnsafeStore`, or `FleetUnavailable` when the server does not answer. A server that does not let itself be
    asked is taken at its word, and that is logged.
    """
    try:
        for client in await executor.clients():
            await _check_server(client, allow_eviction=allow_eviction)
    except (RedisError, OSError) as error:
        raise FleetUnavailable(f"the run store does not answer ({type(error).__name__}); is its URL right?") from error


async def _check_server(client: Redis, *, allow_eviction: bool) -> None:
    policy = await _eviction_policy(client)
    if policy is None:
        _log.warning("this Redis does not tell its maxmemory-policy; make sure that it is noeviction")
        return
    if policy == "noeviction":
        return
    reason = (
        f"the run store's Redis has maxmemory-policy {policy!r}: under memory pressure it would silently delete runs. "
        "Set it to noeviction (CONFIG SET maxmemory-policy noeviction, and in redis.conf)"
    )
    if not allow_eviction:
        raise UnsafeStore(f"{reason}, or pass allow_eviction=True to create_app to run the risk.")
    _log.critical("%s. Running all the same, because allow_eviction=True was given.", reason)


async def _eviction_policy(client: Redis) -> str | None:
    """Give the server's maxmemory-policy, None where it tells nobody. INFO first: CONFIG GET shows passwords, too."""
    with suppress(ResponseError):
        info: dict[str, Any] = await client.info("memory")
        if "maxmemory_policy" in info:
            return str(info["maxmemory_policy"])
    with suppress(ResponseError):
        answer = await client.config_get("maxmemory-policy")
        return next((_text(value) for name, value in answer.items() if _text(name) == "maxmemory-policy"), None)
    return None


def _text(value: bytes | str | None) -> str:
    return value.decode() if isinstance(value, bytes) else value or ""
