"""The sentinels of a service, as redis-py asks them; when none of them answers, the error says why.

redis-py keeps to itself whether a sentinel was away, refused the login, or could not prove who it is.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import redis
import redis.asyncio as aredis
from redis.asyncio.sentinel import MasterNotFoundError as AsyncMasterNotFoundError
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.exceptions import RedisError
from redis.sentinel import MasterNotFoundError, Sentinel

Hosts = Sequence[tuple[str, int]]


class Watch(Sentinel):
    """Sentinels that are asked without await."""

    def __init__(self, hosts: Hosts, **options: Any) -> None:
        super().__init__(())  # type: ignore[no-untyped-call]
        self.sentinels = [_Asked(host, port, **options) for host, port in hosts]

    def discover_master(self, service_name: str) -> tuple[str, int]:
        """Return the master's host and port. Raises `MasterNotFoundError` from what a sentinel raised."""
        try:
            return super().discover_master(service_name)  # type: ignore[no-untyped-call, no-any-return]
        except MasterNotFoundError as error:
            raise error from _refusal(self.sentinels)


class AsyncWatch(AsyncSentinel):
    """Sentinels that are asked with await."""

    def __init__(self, hosts: Hosts, **options: Any) -> None:
        super().__init__(())  # type: ignore[no-untyped-call]
        self.sentinels = [_AsyncAsked(host=host, port=port, **options) for host, port in hosts]

    async def discover_master(self, service_name: str) -> tuple[str, int]:
        """Return the master's host and port. Raises `MasterNotFoundError` from what a sentinel raised."""
        try:
            return await super().discover_master(service_name)  # type: ignore[no-any-return]
        except AsyncMasterNotFoundError as error:
            raise error from _refusal(self.sentinels)


class _Asked(redis.Redis):
    refusal: RedisError | None = None

    def sentinel_masters(self, **options: Any) -> Any:
        self.refusal = None
        try:
            return super().sentinel_masters(**options)
        except RedisError as error:
            self.refusal = error
            raise


class _AsyncAsked(aredis.Redis):
    refusal: RedisError | None = None

    async def sentinel_masters(self, **options: Any) -> Any:
        self.refusal = None
        try:
            return await super().sentinel_masters(**options)
        except RedisError as error:
            self.refusal = error
            raise


def _refusal(sentinels: Iterable[Any]) -> RedisError | None:
    """Return what the first raised if each raised something: who answers knows of no master at the moment."""
    refusals = [each.refusal for each in sentinels]
    return refusals[0] if refusals and all(refusals) else None
