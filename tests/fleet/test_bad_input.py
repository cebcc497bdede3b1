"""Bad input at the producer's and the person's edge: a named error, state unchanged, the worker keeps working."""

import pytest
from fleet.conftest import PLAN, StartWorker, call, steps

from turnfleet import Approve, Fleet, IllegalTransition, PayloadTooLarge, PlanLimits, UnknownRun
from turnfleet_kernel import PlanError


def test_a_request_over_the_limit_is_refused_before_anything_is_written(fleet: Fleet) -> None:
    """The error says what is too large and how large it may be."""
    with pytest.raises(PayloadTooLarge, match="prompt"):
        fleet.enqueue(PLAN, "x" * 20_000_000)
    assert list(fleet.runs()) == []


def test_an_unknown_run_is_named(fleet: Fleet) -> None:
    """A handle asks nothing; its first use does."""
    run = fleet.run("nobody")
    with pytest.raises(UnknownRun, match="nobody"):
        run.status()
    with pytest.raises(UnknownRun, match="nobody"):
        run.cancel()
    with pytest.raises(UnknownRun, match="nobody"):
        run.resume({"approval:x": Approve()}, by="alice")
    with pytest.raises(UnknownRun, match="nobody"):
        next(iter(run.events(timeout=60)))


def test_a_finished_run_cannot_be_resumed(fleet: Fleet, start_worker: StartWorker) -> None:
    """The error says what the run's state is, and the state stays."""
    start_worker()
    run = fleet.enqueue(PLAN, steps("done"))
    run.result(timeout=60)
    with pytest.raises(IllegalTransition, match="completed"):
        run.resume({"approval:x": Approve()}, by="alice")
    assert run.status().state == "completed"


def test_arguments_that_do_not_fit_come_back_to_the_model(fleet: Fleet, start_worker: StartWorker) -> None:
    """TOL-3: the run goes on, the model is told what does not fit."""
    start_worker()
    run = fleet.enqueue(PLAN, steps([call("note", text=["no", "text"]), call("nothing")], "noted"))
    outcome = run.result(timeout=60)
    assert outcome.text == "noted"
    assert all(each.error for each in outcome.tool_outcomes)


def test_limits_that_make_no_sense_are_refused_where_they_are_declared() -> None:
    """IPL-7."""
    with pytest.raises(PlanError, match="max_model_rounds"):
        PlanLimits(max_model_rounds=0)


def test_a_failing_model_fails_the_run_and_the_worker_goes_on(fleet: Fleet, start_worker: StartWorker) -> None:
    """The error is the run's; a retry by hand continues from the journal and fails the same way here."""
    start_worker()
    run = fleet.enqueue(PLAN, steps([call("note", text="x")], {"fail": "the provider is down"}))
    events = list(run.events(timeout=60))
    assert (events[-1].kind, events[-1].error) == ("error", "RuntimeError: the provider is down")
    assert run.status().error == "RuntimeError: the provider is down"
    assert fleet.enqueue(PLAN, steps("fine")).result(timeout=60).text == "fine"
