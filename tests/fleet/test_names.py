"""Plans that name what no worker has."""

import pytest
from fleet.conftest import StartWorker, steps
from support.waiting import eventually

from turnfleet import Fleet, PlanRejected, PlanSpec, StageSpec

UNKNOWN = PlanSpec(
    name="ahead of its time",
    model="oracle",
    tools=("note", "teleport"),
    stages=(StageSpec(name="censor"),),
    delegates=("twin",),
)


def test_unknown_names_are_refused_at_once_when_workers_are_known(fleet: Fleet, start_worker: StartWorker) -> None:
    """One error lists every unknown name by kind; nothing was enqueued."""
    start_worker()
    eventually(fleet.workers)
    with pytest.raises(PlanRejected) as refused:
        fleet.enqueue(UNKNOWN, steps("x"))
    for name in ("oracle", "teleport", "censor", "twin"):
        assert name in str(refused.value)
    assert "'note'" not in str(refused.value).split("known", maxsplit=1)[0]
    assert list(fleet.runs()) == []


def test_a_run_that_fits_nobody_is_parked_and_goes_when_one_that_fits_arrives(
    fleet: Fleet, start_worker: StartWorker
) -> None:
    """Enqueued before any worker: parked with what is missing; a worker that has it starts, and it runs."""
    plan = PlanSpec(name="later", model="planned", tools=("note", "newcomer"))
    run = fleet.enqueue(plan, steps([{"name": "newcomer"}], "done"))
    start_worker()
    status = eventually(lambda: (seen := run.status()).state == "parked" and seen)
    assert status.missing == {"tool": ("newcomer",)}
    assert "newcomer" in (status.parked_because or "")
    start_worker("fleet.newcomer")
    assert run.result(timeout=40).text == "done"
