"""Reading a fleet's runs page by page and shard by shard: never more than a few of them in memory, nothing written."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from turnfleet.errors import TurnfleetError, UnknownRun
from turnfleet.store import Keys, commands
from turnfleet.store.commands.browsing import RunFile
from turnfleet.store.executor import AsyncExecutor
from turnfleet.store.paging import Position

PAGE = 200
FILES = 8
"""Runs that are read in one call: a journal may be long."""

STATES = ("queued", "parked", "paused", "running")
"""Every run that has not ended. A running one is looked at as if it were handed over now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which runs are looked at. `limit`: at most so many; None: all."""

    states: Sequence[str] = STATES
    tenant: str | None = None
    plan: str | None = None
    """A plan's name, or the beginning of its id (at least 8 digits)."""
    limit: int | None = None

    def takes(self, file: RunFile) -> bool:
        """Tell whether a run is wanted: it may have moved on since its place was read."""
        if file.state not in self.states:
            return False
        if self.plan is None or self.plan == file.plan_name:
            return True
        return len(self.plan) >= 8 and file.claim.plan_id.startswith(self.plan)  # noqa: PLR2004 - as its docstring says


class Survey:
    """Reads the wanted runs of a fleet. `expected` grows with the indexes that were seen; `passed` with the runs."""

    def __init__(self, executor: AsyncExecutor, keys: Keys, wanted: Wanted) -> None:
        self._executor = executor
        self._keys = keys
        self._wanted = wanted
        self.expected = 0
        self.passed = 0

    async def files(self) -> AsyncIterator[RunFile]:
        """Give the runs, each as its next claim would find it.

        A run that changes its state meanwhile may be given twice, or not at all. Raises `FleetUnavailable`.
        """
        given = 0
        await self._count()
        async for run_ids in self._places():
            for start in range(0, len(run_ids), FILES):
                batch = [commands.run_file(self._keys, each) for each in run_ids[start : start + FILES]]
                for file in await self._executor.execute_many(batch):
                    self.passed += 1
                    if isinstance(file, UnknownRun):
                        continue  # deleted meanwhile
                    if isinstance(file, TurnfleetError):
                        raise file
                    if self._wanted.takes(file):
                        yield file
                        given += 1
                        if given == self._wanted.limit:
                            return

    async def _count(self) -> None:
        for shard in range(self._keys.shards):
            for state in self._states():
                page = await self._executor.execute(
                    commands.browse(self._keys, shard, state=state, tenant=self._wanted.tenant, limit=1)
                )
                self.expected += page.size

    async def _places(self) -> AsyncIterator[Sequence[str]]:
        for shard in range(self._keys.shards):
            for state in self._wanted.states:
                before: Position | None = None
                while True:
                    page = await self._executor.execute(
                        commands.browse(
                            self._keys, shard, state=state, tenant=self._wanted.tenant, before=before, limit=PAGE
                        )
                    )
                    yield page.run_ids
                    if page.stopped is None:
                        break
                    before = page.stopped

    def _states(self) -> Sequence[str]:
        """Give the states whose indexes are counted: a tenant has one index for all of its runs."""
        return self._wanted.states if self._wanted.tenant is None else self._wanted.states[:1]
