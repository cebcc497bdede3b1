"""When a run does not do what a test expects, the error says what it did instead, or what it waits for."""

import time
import traceback
from typing import Unpack

import pytest
from testing_kit.kit import PLAN, WAITING, Desk, refund, script

from turnfleet import EnqueueOptions, RunFailed
from turnfleet_worker.errors import RegistrationError
from turnfleet_worker.testing import LocalFleet, LocalRun, call, local_fleet


def _failure(run: LocalRun[object]) -> RunFailed:
    with pytest.raises(RunFailed) as failed:
        run.result()
    return failed.value


def _enqueue(fleet: LocalFleet, **options: Unpack[EnqueueOptions]) -> LocalRun[object]:
    run = fleet.enqueue(PLAN, "go", **options)
    assert isinstance(run, LocalRun)
    return run


def test_a_failure_comes_from_what_was_raised() -> None:
    """With its traceback, down to the line."""
    with local_fleet(Desk().registry, models=script(ConnectionError("no model today"))) as fleet:
        cause = _failure(_enqueue(fleet)).__cause__
        assert isinstance(cause, ConnectionError)
        assert any(frame.name == "_take" for frame in traceback.extract_tb(cause.__traceback__))


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_a_model_cannot_end_the_worker(error: BaseException) -> None:
    """Its run fails, and the worker takes the next."""
    with local_fleet(Desk().registry, models=script(error)) as fleet:
        for _ in range(2):
            with pytest.raises(RunFailed, match=type(error).__name__):
                fleet.enqueue(PLAN, "hi").result()


def test_a_model_call_beyond_the_script_is_named() -> None:
    """How many steps there are, which was asked for, and what the run had done by then."""
    with local_fleet(Desk().registry, models=script(call("look", what="tea"))) as fleet:
        failed = _failure(_enqueue(fleet))
        assert failed.error == "AssertionError: the script has 1 steps; step 2 was asked for"
        assert failed.__notes__ == ["what it did: calls look -> look gave its result -> error"]


def test_what_tools_raise_is_kept_though_the_run_goes_on() -> None:
    """A model is told of it, a scripted one does not care, and a test wants to see it."""
    models = script(call("look", what="nothing"), "All is well.")
    with local_fleet(Desk().registry, models=models) as fleet:
        run = _enqueue(fleet)
        assert run.result().text == "All is well."
        (failure,) = fleet.tool_failures
        assert (failure.run_id, failure.tool) == (run.run_id, "look")
        assert isinstance(failure.error, LookupError)
        assert traceback.extract_tb(failure.error.__traceback__)[-1].line == 'raise LookupError("there is nothing")'


def _waited_in_vain(run: LocalRun[object], timeout: float) -> str:
    began = time.monotonic()
    with pytest.raises(TimeoutError) as error:
        run.result(timeout)
    assert time.monotonic() - began < timeout or timeout < 1
    return str(error.value)


def test_a_wait_in_vain_says_in_which_call_the_run_is() -> None:
    """By tool and call id; the same for a reader of events."""
    desk = Desk()
    with local_fleet(desk.registry, models=script(call("look", what="tea"), *WAITING)) as fleet:
        run = _enqueue(fleet, run_id="r")
        fleet.settle()
        assert _waited_in_vain(run, 0.3) == (
            "run 'r' did not get on: it is running; in a call of wait (w1). What it did: calls look -> "
            "look gave its result -> calls wait"
        )
        with pytest.raises(TimeoutError, match=r"in a call of wait \(w1\)"):
            list(run.events(timeout=0.1))
        desk.open()
        assert run.result().text == "done"


def test_a_wait_for_what_nothing_will_move_ends_at_once() -> None:
    """Not due yet, nobody there, lost, parked: each says what to do. An hour would have been waited."""
    with local_fleet(Desk().registry, models=script("hi")) as fleet:
        assert "not due for another 3:00:00: fleet.skip(...)" in _waited_in_vain(_enqueue(fleet, countdown=10800), 3600)
        fleet.lose_next()
        lost = _enqueue(fleet)
        assert "no message names it any more: fleet.skip(seconds=...)" in _waited_in_vain(lost, 5)
        fleet.stop_worker()
        assert "there is no worker: fleet.start_worker()" in _waited_in_vain(_enqueue(fleet), 3600)
        fleet.start_worker(Desk().registry.variant(models={}, function=lambda _, function: function))
        run = fleet.enqueue(PLAN, "hi", thread_id="t")
        assert run.result().text == "hi"


def test_a_run_whose_worker_was_killed_waits_for_its_lease() -> None:
    """Which is said at once, whether or not there is another worker."""
    for restart in (True, False):
        with local_fleet(Desk().registry, models=script(*WAITING)) as fleet:
            run = _enqueue(fleet)
            fleet.settle()
            fleet.kill_worker(restart=restart)
            assert "its worker is gone, and its lease must run out first: fleet.skip" in _waited_in_vain(run, 5)


def test_a_run_that_waits_without_a_word_waits_for_the_fleets_patience() -> None:
    """No test hangs."""
    with local_fleet(Desk().registry, models=script(*WAITING), patience=0.2) as fleet:
        run = _enqueue(fleet)
        fleet.settle()
        with pytest.raises(TimeoutError, match="in a call of wait"):
            run.result()
        with pytest.raises(TimeoutError, match="in a call of wait"):
            list(run.events())


def test_a_stand_in_for_a_model_that_is_not_there_is_refused() -> None:
    """By name, with those that are."""
    with pytest.raises(RegistrationError, match="'suport' stands for none that is registered; those are support"):
        local_fleet(Desk().registry, models={"suport": script("hi")["support"]}).__enter__()


def _unmakeable() -> None:
    raise KeyError("tea")


def test_a_model_that_cannot_be_made_parks_its_run() -> None:
    """What its factory raised is what the run waits for; no worker dies of it."""
    with local_fleet(Desk().registry, models={"support": _unmakeable}) as fleet:
        why = _waited_in_vain(_enqueue(fleet), 3600)
        assert "it is parked: model 'support': its factory raised KeyError: 'tea'" in why


@pytest.mark.slow  # it loads what speaks to the provider
def test_a_model_without_a_stand_in_needs_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run is parked, which the error says: nothing is sent to anybody."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with local_fleet(Desk().registry) as fleet:
        assert "it is parked: " in _waited_in_vain(_enqueue(fleet), 3600)


def test_refusals_are_the_fleets_own() -> None:
    """A plan that names what is not there, at enqueue."""
    with local_fleet(Desk().registry, models=script(refund(1))) as fleet, pytest.raises(Exception, match="levitate"):
        fleet.enqueue(PLAN.model_copy(update={"tools": ("levitate",)}), "go")
