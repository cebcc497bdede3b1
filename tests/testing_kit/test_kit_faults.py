"""What goes wrong in fleets can be made to go wrong: messages, workers, deploys."""

import pytest
from testing_kit.kit import PLAN, WAITING, Desk, refund, script

from turnfleet import PlanRejected, PlanSpec
from turnfleet_worker.testing import local_fleet

SMALL = (refund(20), "done")


def test_a_message_that_comes_twice_starts_one_run() -> None:
    """The second finds nothing to claim, whether it comes early or late."""
    desk = Desk()
    with local_fleet(desk.registry, models=script(*SMALL)) as fleet:
        fleet.duplicate_next(2)
        runs = [fleet.enqueue(PLAN, "refund") for _ in range(3)]
        fleet.settle()
        assert desk.done == ["refund 20"] * 3
        assert [run.status().attempts for run in runs] == [1, 1, 1]
        fleet.skip(seconds=1)
        (worker,) = fleet.workers()
        assert (worker["counts"]["claimed"], worker["counts"]["nothing to do"]) == (3, 2)


def test_a_lost_message_is_offered_again_when_time_passes() -> None:
    """The record is the truth: the sweep finds a run that no message names."""
    desk = Desk()
    with local_fleet(desk.registry, models=script(*SMALL)) as fleet:
        fleet.lose_next()
        run = fleet.enqueue(PLAN, "refund")
        fleet.settle()
        assert run.status().state == "queued"
        fleet.skip(seconds=5)
        assert run.status().state == "queued"
        fleet.skip(seconds=10)
        assert run.result().text == "done"
        assert desk.done == ["refund 20"]


def test_a_killed_workers_run_is_taken_back_when_its_lease_is_over() -> None:
    """Not before; and nothing that the dead worker's coroutines still did has reached the run."""
    desk = Desk()
    with local_fleet(desk.registry, models=script(*SMALL[:1], *WAITING)) as fleet:
        run = fleet.enqueue(PLAN, "refund, then wait")
        fleet.settle()
        before = run.status()
        assert desk.done == ["refund 20", "wait"]
        fleet.kill_worker()
        desk.open()
        assert (run.status().state, run.status().next_index) == ("running", before.next_index)
        fleet.skip(seconds=5)
        assert run.status().worker == before.worker
        fleet.skip(seconds=10)
        assert run.result().text == "done"
        assert run.status().worker != before.worker
        assert desk.done == ["refund 20", "wait", "left", "wait", "left"]
        assert [event.kind for event in run.events()].count("resumed") == 1


def test_a_worker_that_dies_while_its_model_speaks_buys_that_turn_again() -> None:
    """A scripted step that was cut off is taken again."""
    models = script((3600.0, "slow"), "never asked for")
    with local_fleet(Desk().registry, models=models) as fleet:
        run = fleet.enqueue(PLAN, "hi")
        fleet.settle()
        fleet.kill_worker()
        fleet.skip(seconds=15)
        assert run.status().state == "running"
        assert [len(transcript) for transcript in models["support"].calls] == [1, 1]


def test_a_worker_that_stops_hands_its_runs_back() -> None:
    """As at a deploy: it goes on with the next one, without a lease to wait for."""
    desk = Desk()
    with local_fleet(desk.registry, models=script(*SMALL)) as fleet:
        fleet.stop_worker()
        run = fleet.enqueue(PLAN, "refund")
        fleet.skip(hours=1)
        assert (run.status().state, fleet.workers()) == ("queued", ())
        fleet.start_worker()
        assert run.result().text == "done"


def test_a_new_build_takes_what_the_old_one_could_not_run() -> None:
    """Refused while a worker is there that lacks it; parked when one comes that does; gone on with the new build."""
    old, new = Desk(), Desk()
    new.registry.tool(_levitate, name="levitate")
    plan = PlanSpec(name="support", model="support", tools=("levitate",))
    with local_fleet(old.registry, models=script("up")) as fleet:
        with pytest.raises(PlanRejected, match="levitate"):
            fleet.enqueue(plan, "up")
        fleet.kill_worker(restart=False)
        fleet.skip(minutes=1)  # until the dead worker's announcement is over
        run = fleet.enqueue(plan, "up")
        fleet.start_worker()
        fleet.settle()
        assert (run.status().state, dict(run.status().missing)) == ("parked", {"tool": ("levitate",)})
        fleet.start_worker(new.registry)
        fleet.skip(seconds=5)
        assert run.result().text == "up"


async def test_a_plan_may_name_what_a_new_build_brings_as_soon_as_it_is_there() -> None:
    """What the old build lacked a moment ago is not remembered against it."""
    new = Desk()
    new.registry.tool(_levitate, name="levitate")
    plan = PlanSpec(name="support", model="support", tools=("levitate",))
    async with local_fleet(Desk().registry, models=script("up")) as fleet:
        with pytest.raises(PlanRejected, match="levitate"):
            await fleet.enqueue(plan, "up")
        await fleet.start_worker(new.registry)
        assert (await (await fleet.enqueue(plan, "up")).result()).text == "up"


def _levitate() -> str:
    """Float."""
    return "up"


def test_urgent_messages_are_taken_first() -> None:
    """Of those that wait for a slot, by priority and then by age."""
    desk = Desk()
    with local_fleet(desk.registry, models=script(*SMALL), concurrency=1) as fleet:
        fleet.stop_worker()
        runs = [fleet.enqueue(PLAN, "refund", priority=priority) for priority in (1, 5, 9, 5)]
        fleet.start_worker()
        fleet.settle()
        started = sorted(range(4), key=lambda each: runs[each].status().started_at or fleet.now)
        assert started == [2, 1, 3, 0]
