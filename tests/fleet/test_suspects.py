"""A run that kills every worker that takes it up ends as a dead letter, and takes nobody with it (DESIGN 1)."""

import time
from collections.abc import Callable

import pytest
from fleet.conftest import PLAN, StartWorker, call, steps
from fleet.helpers import check_stream

from turnfleet import Fleet
from turnfleet.errors import RunFailed

Marks = Callable[[str], list[str]]
DEADLY = PLAN.model_copy(update={"tools": ("die",)})


@pytest.mark.slow
def test_a_run_that_kills_its_worker_every_time_is_a_dead_letter_and_its_50_neighbours_finish(
    fleet: Fleet, start_worker: StartWorker, marks: Marks
) -> None:
    """Five losses are counted for it, by its run id; its neighbours on the same worker are never dead-lettered."""
    worker = start_worker("fleet.deadly", concurrency=60)
    rounds = [[call("dawdle", seconds=0.3)] for _ in range(4)]
    neighbours = fleet.enqueue_many([(PLAN, steps(*rounds, "finished"))] * 25)
    deadly = fleet.enqueue(DEADLY, steps([call("die")], "never said"))
    neighbours += fleet.enqueue_many([(PLAN, steps(*rounds, "finished"))] * 23)
    # Longer than a worker lives while the killer is beside it: only apart from it do these get to their end.
    neighbours += fleet.enqueue_many([(PLAN, steps([call("dawdle", seconds=6)], "finished"))] * 2)
    deaths, limit = 0, time.monotonic() + 500
    while (status := deadly.status()).state != "failed":
        assert time.monotonic() < limit, status
        if not worker.running:
            deaths += 1
            worker = start_worker("fleet.deadly", concurrency=60)
        time.sleep(0.05)
    with pytest.raises(RunFailed, match="WorkerLost: 5 workers in a row"):
        deadly.result(timeout=60)
    assert (deaths, status.state, status.error and status.error.split(":")[0]) == (5, "failed", "WorkerLost")
    for run in neighbours:
        assert run.result(timeout=60).text == "finished"
        check_stream(list(run.events(timeout=60)))
    check_stream(list(deadly.events(timeout=60)))
    # The call was begun again each time, under its own id; the turn that asked for it was bought once.
    assert len(marks(f"model:{deadly.run_id}:")) == 1
