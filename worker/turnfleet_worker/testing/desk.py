"""Where interrupts meet the scripted person: each pause is looked at once, as soon as it is there."""

import asyncio
from collections.abc import Callable

from turnfleet.client.async_fleet import AsyncRun
from turnfleet.errors import TurnfleetError
from turnfleet.interrupt import RunInterrupt
from turnfleet_worker.testing.person import Asked, Person


class Desk:
    """Lets a person look at paused runs. `run` gives the handle of a run; without a person nothing is decided."""

    def __init__(self, person: Person | None, run: Callable[[str], AsyncRun[object]]) -> None:
        self._person = person
        self._run = run
        self._looking: dict[asyncio.Task[None], str] = {}
        self.failures: dict[str, BaseException] = {}
        """What the script itself raised, by run id."""

    @property
    def busy(self) -> "set[asyncio.Task[None]]":
        """The looks under way."""
        return set(self._looking)

    def put(self, run_id: str) -> None:
        """Have the person look at a run that paused."""
        if self._person is not None:
            task = asyncio.get_running_loop().create_task(self._look(run_id, self._person), name=f"person:{run_id}")
            self._looking[task] = run_id
            task.add_done_callback(self._done)

    async def looked_at(self, run_id: str) -> None:
        """Wait until the person is through with this run's pause."""
        tasks = [task for task, each in self._looking.items() if each == run_id]
        if tasks:
            await asyncio.wait(tasks)

    def notes(self, run_id: str) -> list[str]:
        """Say why what the person decided about a run did not count."""
        if self._person is None:
            return []
        return [
            f"{self._person!r} said {asked.decision!r} to {asked.interrupt.id!r}, which was refused: {asked.refused}"
            for asked in self._person.seen
            if asked.interrupt.run_id == run_id and asked.refused is not None
        ]

    async def close(self) -> None:
        """End the looks under way."""
        for task in self._looking:
            task.cancel()
        if self._looking:
            await asyncio.wait([*self._looking])

    async def _look(self, run_id: str, person: Person) -> None:
        run = self._run(run_id)
        for interrupt in await run.interrupts():
            person.seen.append(await self._asked(run, interrupt, person))

    async def _asked(self, run: AsyncRun[object], interrupt: RunInterrupt, person: Person) -> Asked:
        decision = person.decide(interrupt)
        if decision is None:
            return Asked(interrupt, None)
        try:
            await run.resume({interrupt.id: decision}, by=person.name, roles=person.roles)
        except TurnfleetError as refused:
            return Asked(interrupt, decision, refused)
        return Asked(interrupt, decision)

    def _done(self, task: "asyncio.Task[None]") -> None:
        run_id = self._looking.pop(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failures[run_id] = error
