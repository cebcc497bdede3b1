"""The measurements, one after another, each bounded in number and all of them in time."""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

from celery import Celery

from turnfleet import Approve, Fleet
from turnfleet.client.fleet import Run
from turnfleet_kernel.contracts.spec import PlanSpec
from turnfleet_worker.bench.bare import TASK
from turnfleet_worker.bench.fleet import ASKING, PLAIN, TOOL
from turnfleet_worker.bench.place import Place
from turnfleet_worker.bench.report import Latency, Rate
from turnfleet_worker.local.figures import spread

BATCH: Final = 200
SINGLES: Final = 500
ROUND_TRIPS: Final = 100
WARM_SHARE: Final = 0.1
"""Of a backlog, what is worked off before the clock starts: the worker's first runs pay for its start."""

GLANCE_SECONDS: Final = 0.02
EVENT_SECONDS: Final = 10.0


class TimeIsUp(Exception):
    """The bench has used its time; what was measured so far stands."""


@dataclass(slots=True)
class Budget:
    """The seconds that all measurements have together; `tell` hears how far each one is."""

    until: float
    tell: Callable[[str, int, int], None]

    def check(self, name: str, done: int, of: int) -> None:
        """Say how far it is. Raises `TimeIsUp`."""
        self.tell(name, done, of)
        if time.monotonic() > self.until:
            raise TimeIsUp(name)


class Measuring:
    """Measures one fleet by way of its client; `made` are the runs that it enqueued."""

    def __init__(self, fleet: Fleet, place: Place, budget: Budget) -> None:
        self._fleet = fleet
        self._place = place
        self._budget = budget
        self.made: list[str] = []

    def enqueue_singly(self, runs: int) -> Rate:
        """One call a run, one after another."""
        began = time.perf_counter()
        for number in range(runs):
            self.made.append(self._fleet.enqueue(PLAIN, "1").run_id)
            if number % BATCH == 0:
                self._budget.check("enqueue", number, runs)
        return Rate("enqueue", "runs, one call each,", runs / (time.perf_counter() - began), runs)

    def enqueue_many(self, runs: int) -> Rate:
        """In batches of 200."""
        began = time.perf_counter()
        for start in range(0, runs, BATCH):
            self._enqueue(PLAIN, "1", min(BATCH, runs - start))
            self._budget.check("enqueue_many", start, runs)
        return Rate("enqueue_many", f"runs, {BATCH} a call,", runs / (time.perf_counter() - began), runs)

    def _enqueue(self, plan: PlanSpec, prompt: str, runs: int) -> Sequence[Run[Any]]:
        made = self._fleet.enqueue_many([(plan, prompt)] * runs)
        self.made += [run.run_id for run in made]
        return made

    def work_off(self, runs: int) -> Rate:
        """Watch the workers work off a backlog of `runs` runs; the first tenth is not counted."""
        per_second = _watch("runs", lambda: self._place.size("completed"), runs, self._budget)
        return Rate("runs", "runs of one turn", per_second, runs)

    def enqueue_to_first_event(self) -> Latency:
        """From the call of `enqueue()` to the first event in the same process, an idle worker between them."""
        seconds = []
        for number in range(ROUND_TRIPS):
            self._budget.check("enqueue to first event", number, ROUND_TRIPS)
            began = time.perf_counter()
            run = self._fleet.enqueue(PLAIN, "1")
            seconds.append(_until_event(run, -1, began))
            self.made.append(run.run_id)
            run.result(timeout=EVENT_SECONDS)
        return Latency("enqueue to first event", "enqueue() and events() in one process", spread(seconds))

    def resume_to_first_event(self) -> Latency:
        """From the call of `resume()` to the next event."""
        waiting, seconds = self._enqueue(ASKING, TOOL, ROUND_TRIPS), []
        name = "resume to first event"
        while self._place.size("paused") < ROUND_TRIPS:
            self._budget.check(name, 0, ROUND_TRIPS)
            time.sleep(GLANCE_SECONDS)
        for number, run in enumerate(waiting):
            self._budget.check(name, number, ROUND_TRIPS)
            status = run.status()
            decisions = {each.id: Approve() for each in status.interrupts}
            began = time.perf_counter()
            run.resume(decisions, by="bench")
            seconds.append(_until_event(run, status.next_index - 1, began))
            run.result(timeout=EVENT_SECONDS)
        return Latency(name, "resume() and events() in one process", spread(seconds))

    def events(self, pieces: int) -> Rate:
        """One run that streams as fast as it can, one reader that follows it live."""
        run = self._fleet.enqueue(PLAIN, str(pieces))
        self.made.append(run.run_id)
        seen, began = 0, time.perf_counter()
        with closing(run.events(timeout=EVENT_SECONDS)) as events:
            for event in events:
                if seen == 0:
                    began = time.perf_counter()
                seen += event.kind == "text_delta"
                if seen % BATCH == 0:
                    self._budget.check("events", seen, pieces)
        return Rate("events", "events, one run and one reader,", (seen - 1) / (time.perf_counter() - began), seen)


def publish_bare(app: Celery, tasks: int, budget: Budget) -> Rate:
    """Publish empty tasks with bare Celery, one call each."""
    task = app.tasks[TASK]
    began = time.perf_counter()
    with app.producer_pool.acquire(block=True) as producer:
        for number in range(tasks):
            task.apply_async(producer=producer)
            if number % BATCH == 0:
                budget.check("bare publish", number, tasks)
    return Rate("bare publish", "empty tasks, one call each,", tasks / (time.perf_counter() - began), tasks)


def work_off_bare(app: Celery, tasks: int, processes: int, budget: Budget) -> Rate:
    """Watch a stock worker work off a backlog of empty tasks; the first tenth is not counted."""

    def done() -> int:
        answers = app.control.inspect(timeout=0.2, limit=1).stats() or {}
        return sum(int(each["total"].get(TASK, 0)) for each in answers.values())

    per_second = _watch("bare tasks", done, tasks, budget)
    return Rate("bare tasks", f"empty tasks, a stock worker of {processes} processes,", per_second, tasks)


def _watch(name: str, done: Callable[[], int], total: int, budget: Budget) -> float:
    """Give how many a second got done, from a tenth of them on to the last.

    Where so few are done between two glances, from the glance before: not faster than it was, perhaps slower.
    """
    first, warm = (0, time.perf_counter()), max(1, round(total * WARM_SHARE))
    while True:
        now = done(), time.perf_counter()
        budget.check(name, now[0], total)
        if now[0] >= total:
            return (now[0] - first[0]) / (now[1] - first[1])
        if first[0] < warm:
            first = now
        time.sleep(GLANCE_SECONDS)


def _until_event(run: Run[Any], after: int, began: float) -> float:
    with closing(run.events(after=after, timeout=EVENT_SECONDS)) as events:
        next(events)
        return time.perf_counter() - began


def in_turn(steps: Iterable[tuple[str, Callable[[], Rate | Latency]]]) -> tuple[list[Rate | Latency], list[str]]:
    """Take measurements in turn until the time is up; give the figures, and the names of what was not measured."""
    figures: list[Rate | Latency] = []
    left = list(steps)
    while left:
        try:
            figures.append(left[0][1]())
        except TimeIsUp:
            break
        left.pop(0)
    return figures, [name for name, _ in left]
