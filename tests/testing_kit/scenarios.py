"""What a run may go through, told once and played twice: on a local fleet and on a real one.

A scenario gets a `Stage` and returns what there was to see; what that must be stands beside it.
"""

from collections.abc import Callable
from typing import Any, Protocol

import pytest
from fleet.helpers import outline
from testing_kit.shop import plan

from turnfleet import Answer, Approve, Edit, Fleet, NotAllowed, PlanSpec, Reject, Retry, Run, RunFailed, RunIdConflict

REFUND = plan("refunder", "refund")


class Stage(Protocol):
    """A fleet under test, and what is done to it from outside."""

    @property
    def fleet(self) -> Fleet:
        """The client."""

    def until(self, holds: Callable[[], object]) -> None:
        """Let time pass until a condition holds."""

    def kill_worker(self) -> None:
        """Kill the worker, and start another one."""

    def stranger(self) -> Run[Any]:
        """Give a run, enqueued when no worker was there, that names a tool which no worker has."""

    def effects(self) -> list[str]:
        """Give what tools did so far in this scenario."""


def seen(run: Run[Any]) -> dict[str, Any]:
    """Give all that can be seen of a run that ended, but for ids and times."""
    status = run.status()
    told: dict[str, Any] = {"state": status.state, "kinds": outline(list(run.events())), "attempts": status.attempts}
    if status.state == "completed":
        outcome = run.result(timeout=60)
        told |= {"text": outcome.text, "tools": [(each.name, each.value, each.error) for each in outcome.tool_outcomes]}
        told |= {"requests": outcome.usage.requests, "stop": outcome.stop_reason}
    else:
        told |= {"error": status.error, "cancelled": status.cancel_reason}
    return told


def paused(stage: Stage, run: Run[Any]) -> str:
    """Wait until a run waits for somebody; give the id of what it waits for."""
    stage.until(lambda: run.status().state == "paused")
    (interrupt,) = run.interrupts()
    return interrupt.id


def ended(stage: Stage, run: Run[Any]) -> dict[str, Any]:
    """Wait until a run ended, and give what is to be seen of it."""
    stage.until(lambda: run.status().ended)
    return seen(run)


def complete(stage: Stage) -> Any:
    """Let a run only talk."""
    return ended(stage, stage.fleet.enqueue(plan("plain"), "hi"))


def call_a_tool(stage: Stage) -> Any:
    """Make a call that needs no approval."""
    return ended(stage, stage.fleet.enqueue(plan("small", "refund"), "hi")), stage.effects()


def fail_and_retry(stage: Stage) -> Any:
    """Let a model fail, and be back at a retry by hand."""
    run = stage.fleet.enqueue(plan("failing"), "hi")
    failed = ended(stage, run)
    with pytest.raises(RunFailed, match="the model is down"):
        run.result(timeout=60)
    run.retry()
    return failed, ended(stage, run)


def approve(stage: Stage) -> Any:
    """Approve twice, after somebody tried who may not decide."""
    run = stage.fleet.enqueue(REFUND, "hi")
    waiting = paused(stage, run)
    with pytest.raises(NotAllowed):
        run.resume({waiting: Approve()}, by="bob", roles=("support",))
    (interrupt,) = run.interrupts()
    for _ in range(2):
        run.resume({waiting: Approve()}, by="alice", roles=("finance",))
    asked = (interrupt.kind, interrupt.tool, dict(interrupt.arguments or {}), interrupt.roles)
    return asked, ended(stage, run), [each.by for each in run.status().decided], stage.effects()


def reject(stage: Stage) -> Any:
    """Reject: the model is told."""
    run = stage.fleet.enqueue(REFUND, "hi")
    run.resume({paused(stage, run): Reject("too much")}, by="alice", roles=("finance",))
    return ended(stage, run), stage.effects()


def edit(stage: Stage) -> Any:
    """Make a call with the arguments that a person gave it."""
    run = stage.fleet.enqueue(REFUND, "hi")
    edited = Edit({"order_id": "1001", "amount": 60.0})
    run.resume({paused(stage, run): edited}, by="alice", roles=("finance",))
    return ended(stage, run), stage.effects()


def question(stage: Stage) -> Any:
    """Answer a question."""
    run = stage.fleet.enqueue(plan("asker", "ask"), "hi")
    run.resume({paused(stage, run): Answer("red")}, by="alice")
    return ended(stage, run)


def expiry_default(stage: Stage) -> Any:
    """Decide nothing: the default is taken."""
    return ended(stage, stage.fleet.enqueue(plan("hasty", "hasty"), "hi"))


def expiry_of_the_run(stage: Stage) -> Any:
    """Decide nothing where there is no default."""
    return ended(stage, stage.fleet.enqueue(plan("fleeting", "fleeting"), "hi"))


def cancel(stage: Stage) -> Any:
    """Cancel a waiting run, one in the middle of a call, and one that is not due."""
    waiting = stage.fleet.enqueue(REFUND, "hi")
    paused(stage, waiting)
    stuck = stage.fleet.enqueue(plan("shipper", "ship"), "hi")
    stage.until(lambda: stage.effects() == ["ship"])
    later = stage.fleet.enqueue(plan("plain"), "hi", countdown=3600)
    cancelled = [run.cancel("changed my mind") for run in (waiting, stuck, later)]
    return cancelled, [ended(stage, run) for run in (waiting, stuck, later)], waiting.cancel()


def delegated(stage: Stage) -> Any:
    """Let an agent hand its task to another."""
    return ended(stage, stage.fleet.enqueue(plan("boss", delegates=("helper",)), "hi"))


def thread(stage: Stage) -> Any:
    """Have two runs in one thread, of which the first waits for a person."""
    first = stage.fleet.enqueue(REFUND, "one", thread_id="t")
    second = stage.fleet.enqueue(plan("plain"), "two", thread_id="t")
    waiting = paused(stage, first)
    held = second.status().state
    first.resume({waiting: Reject()}, by="alice", roles=("finance",))
    states = [ended(stage, run)["state"] for run in (first, second)]
    ends = [run.status().ended_at for run in (first, second)]
    return held, states, ends == sorted(ends, key=str)


def kill_and_recover(stage: Stage) -> Any:
    """Kill a worker in the second round: nothing bought or done before is bought or done again."""
    run = stage.fleet.enqueue(plan("finder", "refund", "lookup", "broken"), "hi")
    stage.until(lambda: len(stage.effects()) == 2)
    stage.kill_worker()
    return ended(stage, run), stage.effects()


def in_doubt(stage: Stage) -> Any:
    """Kill a worker in a call that must not be made twice; say, when asked, that it was not made."""
    run = stage.fleet.enqueue(plan("shipper", "ship"), "hi")
    stage.until(lambda: stage.effects() == ["ship"])
    stage.kill_worker()
    waiting = paused(stage, run)
    run.resume({waiting: Retry()}, by="alice")
    return waiting, ended(stage, run), stage.effects()


def park(stage: Stage) -> Any:
    """Let a run wait for what no worker has, and say for what."""
    run = stage.stranger()
    stage.until(lambda: run.status().state == "parked")
    status = run.status()
    run.cancel()
    return dict(status.missing), run.status().state


def later(stage: Stage) -> Any:
    """Enqueue for later; the life of one run is over before it is due."""
    due = stage.fleet.enqueue(plan("plain"), "hi", countdown=5)
    doomed = stage.fleet.enqueue(plan("plain"), "hi", countdown=3600, expires=5)
    before = [run.status().state for run in (due, doomed)]
    return before, ended(stage, due)["state"], ended(stage, doomed)


def twice(stage: Stage) -> Any:
    """Enqueue the same run twice, and another under its id."""
    runs = [stage.fleet.enqueue(plan("small", "refund"), "hi", run_id="twice") for _ in range(2)]
    with pytest.raises(RunIdConflict):
        stage.fleet.enqueue(plan("plain"), "something else", run_id="twice")
    return [ended(stage, run)["state"] for run in runs], stage.effects()


def stranger_plan() -> PlanSpec:
    """Give a plan that no worker of the shop can run."""
    return plan("plain", "levitate")
