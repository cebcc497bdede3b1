"""What a failover to a replica that lagged behind does to a fleet's keys, to the byte: they are as they were before."""

from redis.asyncio import Redis


class LostWrites:
    """`save()` is what the replica has; `fall_back()` is its promotion, with everything written since then lost."""

    def __init__(self, client: Redis, fleet: str) -> None:
        self._client = client
        self._patterns = (f"{{{fleet}:*", f"{{{fleet}}}*")
        self._saved: dict[bytes, tuple[int, bytes]] = {}

    async def _keys(self) -> list[bytes]:
        return [bytes(key) for pattern in self._patterns for key in await self._client.keys(pattern)]  # type: ignore[arg-type]

    async def save(self) -> None:
        """Remember every key of the fleet."""
        self._saved = {}
        for key in await self._keys():
            content = await self._client.dump(key)
            assert content is not None
            self._saved[key] = (max(0, await self._client.pttl(key)), content)

    async def fall_back(self) -> None:
        """Let every key of the fleet be as it was."""
        for key in await self._keys():
            await self._client.delete(key)
        for key, (ttl, content) in self._saved.items():
            await self._client.restore(key, ttl, content)
