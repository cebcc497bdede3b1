"""`local_fleet(registry)`: a whole fleet for one test, and nothing left of it afterwards."""

from collections.abc import Mapping
from typing import Any

from turnfleet_worker.registry import Registry
from turnfleet_worker.settings import WorkerSettings
from turnfleet_worker.testing.fleets import AsyncLocalFleet, LocalFleet
from turnfleet_worker.testing.person import Person
from turnfleet_worker.testing.site import LocalSite

SHARDS = 2
"""Enough for keys to be spread; each costs every sweep a script."""


def local_fleet(
    registry: Registry,
    *,
    models: Mapping[str, Any] | None = None,
    person: Person | None = None,
    settings: WorkerSettings | None = None,
    name: str = "local",
    concurrency: int = 100,
    patience: float = 10.0,
) -> LocalFleet:
    """Give a fleet with one worker of this registry, in this process.

    `models` stand in for registered ones of the same names, so that a test needs no key: a `ScriptedModel`, or
    whatever `registry.model` takes. `person` decides what agents wait for; without one, runs stay paused.
    `concurrency` is how many runs the worker has at once. `patience` (real seconds) is how long `result()` and
    `events()` wait when they are not told. Raises `RegistrationError` for a model that the registry does not have.

    It is a `Fleet`, on a loop in a thread of its own, which begins with its first use and ends with its `with`, or with
    `close()`. `async with` gives an `AsyncFleet` instead, on the loop of the caller.
    """
    if not isinstance(registry, Registry):
        raise TypeError(f"local_fleet takes the Registry that your worker serves, not {registry!r:.80}")
    if person is not None and not isinstance(person, Person):
        raise TypeError(f"person= is a Person, as Person({{'refund': Approve()}}), not {person!r:.80}")
    stand_ins = dict(models or {})
    registry.variant(models=stand_ins, function=lambda _, function: function)  # refuses what stands for none
    settings = settings or WorkerSettings(shards=SHARDS)

    async def opened() -> AsyncLocalFleet:
        site = LocalSite(
            registry,
            name=name,
            models=stand_ins,
            person=person,
            settings=settings,
            concurrency=concurrency,
            patience=patience,
        )
        fleet = AsyncLocalFleet(site, settings)
        await site.open(fleet.run)
        return fleet

    return LocalFleet(opened, name, settings)
