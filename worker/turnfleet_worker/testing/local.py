"""`local_fleet(registry)`: a whole fleet for one test, and nothing left of it afterwards."""

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from turnfleet_worker.registry import Registry
from turnfleet_worker.settings import WorkerSettings
from turnfleet_worker.testing.caller import LoopCaller
from turnfleet_worker.testing.fleets import AsyncLocalFleet, LocalFleet
from turnfleet_worker.testing.person import Person
from turnfleet_worker.testing.site import LocalSite

SHARDS = 2
"""Enough for keys to be spread; each costs every sweep a script."""


class LocalFleetContext:
    """A local fleet to be: `with` gives a `LocalFleet`, `async with` an `AsyncLocalFleet`. Good for once."""

    def __init__(self, registry: Registry, settings: WorkerSettings, options: Mapping[str, Any]) -> None:
        self._registry = registry
        self._settings = settings
        self._options = options
        self._fleet: AsyncLocalFleet | None = None
        self._caller: LoopCaller | None = None

    def __enter__(self) -> LocalFleet:
        caller = LoopCaller()
        caller.open()
        try:
            fleet = caller.call(self._open)
        except BaseException:
            caller.close()
            raise
        self._caller = caller
        return LocalFleet(fleet, caller, self._settings)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._caller is not None
        try:
            self._caller.call(self._close)
        finally:
            self._caller.close()

    async def __aenter__(self) -> AsyncLocalFleet:
        return await self._open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    async def _open(self) -> AsyncLocalFleet:
        if self._fleet is not None:
            raise RuntimeError("this local fleet has begun already: call local_fleet() again for another one")
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise RuntimeError(
                "a local fleet runs on asyncio: with another event loop, use `with local_fleet(...)`"
            ) from None
        site = LocalSite(self._registry, settings=self._settings, **self._options)
        self._fleet = AsyncLocalFleet(site, self._settings)
        await site.open(self._fleet.run)
        return self._fleet

    async def _close(self) -> None:
        assert self._fleet is not None
        await self._fleet.leave()


def local_fleet(
    registry: Registry,
    *,
    models: Mapping[str, Any] | None = None,
    person: Person | None = None,
    settings: WorkerSettings | None = None,
    name: str = "local",
    concurrency: int = 100,
    patience: float = 10.0,
) -> LocalFleetContext:
    """Give a fleet with one worker of this registry, in this process, for as long as a `with` or `async with` lasts.

    `models` stand in for registered ones of the same names, so that a test needs no key: a `ScriptedModel`, or
    whatever `registry.model` takes. `person` decides what agents wait for; without one, runs stay paused.
    `concurrency` is how many runs the worker has at once. `patience` (real seconds) is how long `result()` and
    `events()` wait when they are not told. Raises `RegistrationError` for a model that the registry does not have.

    A plain `with` runs the fleet on a loop in a thread of its own, `async with` on the loop of the caller.
    """
    if not isinstance(registry, Registry):
        raise TypeError(f"local_fleet takes the Registry that your worker serves, not {registry!r:.80}")
    if person is not None and not isinstance(person, Person):
        raise TypeError(f"person= is a Person, as Person({{'refund': Approve()}}), not {person!r:.80}")
    options = {
        "name": name,
        "models": models or {},
        "person": person,
        "concurrency": concurrency,
        "patience": patience,
    }
    return LocalFleetContext(registry, settings or WorkerSettings(shards=SHARDS), options)
