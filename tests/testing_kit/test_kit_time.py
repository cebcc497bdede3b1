"""Time passes when it is told to, everywhere in a fleet at once, and nowhere else."""

from datetime import timedelta

import fakeredis
import pytest
from testing_kit.kit import PLAN, WAITING, Desk, refund, script

from turnfleet import RunFailed, TurnRequest, UnknownRun
from turnfleet_worker.testing import local_fleet


def test_skipped_time_has_passed_for_redis_for_keys_and_for_plans() -> None:
    """The clock that scripts read, the one by which keys expire, and the one that events are stamped with."""
    with local_fleet(Desk().registry, models=script("hello")) as fleet:
        before = fleet.enqueue(PLAN, "hi")
        before.result()
        fleet.skip(hours=23)
        after = fleet.enqueue(PLAN, "hi")
        after.result()
        assert after.status().created_at - before.status().created_at > timedelta(hours=23)
        *_, last = after.events()
        assert timedelta(0) <= fleet.now - last.time < timedelta(hours=1)
        assert len(fleet.runs()) == 2
        fleet.skip(hours=2)  # a day after its end a run is forgotten
        with pytest.raises(UnknownRun):
            before.status()
        assert [run.run_id for run in fleet.runs()] == [after.run_id]


def test_what_falls_due_on_the_way_happens_at_its_own_moment_and_in_order() -> None:
    """Two defaults, the second of a call that the first led to, and a delayed run between them: one skip."""
    models = script(refund(60, "c1"), refund(70, "c2"), "So be it.")
    with local_fleet(Desk().registry, models=models) as fleet:
        start = fleet.now
        run = fleet.enqueue(PLAN, "two refunds")
        between = fleet.enqueue(PLAN.model_copy(update={"tools": ()}), "later", countdown=timedelta(minutes=90))
        fleet.skip(days=0.5)
        assert run.result().text == "So be it."
        pauses = [event.time - start for event in run.events() if event.kind == "approval"]
        assert [round(pause.total_seconds() / 60) for pause in pauses] == [0, 60]
        assert round((run.status().changed_at - start).total_seconds() / 60) == 120
        started = between.status().started_at
        assert started is not None
        assert round((started - start).total_seconds() / 60) == 90


def test_a_run_in_a_workers_hands_stays_there_however_long() -> None:
    """Its heartbeat goes on: three days in one call are one attempt."""
    desk = Desk()
    with local_fleet(desk.registry, models=script(*WAITING)) as fleet:
        run = fleet.enqueue(PLAN, "wait")
        fleet.settle()
        fleet.skip(days=3)
        assert (run.status().state, run.status().attempts) == ("running", 1)
        fleet.enqueue(PLAN, "wait")  # somebody else comes and goes
        desk.open()
        fleet.skip(seconds=1)
        assert run.result().text == "done"
        assert run.status().attempts == 1
        assert run.status().running_seconds > timedelta(days=3).total_seconds()


def test_a_deadline_passes() -> None:
    """It counts running time, which was skipped in the middle of a call."""
    desk = Desk()
    with local_fleet(desk.registry, models=script(*WAITING)) as fleet:
        run = fleet.enqueue(PLAN, "wait", deadline_seconds=60)
        fleet.settle()
        fleet.skip(minutes=2)
        desk.open()
        with pytest.raises(RunFailed, match="DeadlineExceeded"):
            run.result()


@pytest.mark.parametrize("span", [-1.0, float("nan"), timedelta(days=-1)])
def test_time_goes_forward_only(span: float | timedelta) -> None:
    """Anything else is refused."""
    with local_fleet(Desk().registry) as fleet, pytest.raises(ValueError, match="forward"):
        fleet.skip(span)


def test_two_fleets_have_two_times_and_see_nothing_of_each_other() -> None:
    """Nor does any other fakeredis, and the machine keeps its time."""
    with (
        local_fleet(Desk().registry, models=script("one")) as one,
        local_fleet(Desk().registry, models=script("two")) as two,
        fakeredis.FakeRedis() as bystander,
    ):
        one.skip(days=10)
        assert one.now - two.now > timedelta(days=9)
        seconds, _ = bystander.time()
        assert abs(two.now.timestamp() - seconds) < 3600
        runs = [fleet.enqueue(PLAN, TurnRequest("hi"), run_id="same") for fleet in (one, two)]
        assert [run.result().text for run in runs] == ["one", "two"]
        two.run("same").delete()
        assert one.run("same").status().state == "completed"
        assert bystander.keys() == []


def test_a_fakeredis_whose_time_cannot_be_had_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Better no fleet than one that never gets later."""
    monkeypatch.setattr("turnfleet_worker.testing.fake._tell_time", lambda *_: None)
    with pytest.raises(Exception, match="time cannot be skipped on fakeredis"), local_fleet(Desk().registry):
        pass
