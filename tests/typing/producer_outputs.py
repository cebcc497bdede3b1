"""What type checkers must see through the client. Checked by mypy, never run."""

from collections.abc import AsyncIterator, Iterator
from typing import Any, assert_type

from pydantic import BaseModel

from turnfleet import (
    Answer,
    Approve,
    AsyncFleet,
    AsyncRun,
    Fleet,
    InvocationOutcome,
    KernelEvent,
    Page,
    PlanSpec,
    Run,
    RunInterrupt,
    RunPaused,
    RunState,
    RunStatus,
)


class Invoice(BaseModel):
    """An output type."""

    number: int


def sync_client(fleet: Fleet, plan: PlanSpec) -> None:
    """Carry an output type through the handle into the outcome."""
    run = fleet.enqueue(plan, "hi", output=Invoice, run_id="a", countdown=5)
    assert_type(run, Run[Invoice])
    assert_type(run.result(), InvocationOutcome[Invoice])
    assert_type(run.result().output, Invoice)
    assert_type(fleet.enqueue(plan, "hi").result().output, Any)
    assert_type(fleet.run("a", output=list[int]).result().output, list[int])
    assert_type(fleet.run("a"), Run[Any])
    assert_type(fleet.runs(state="paused"), Page[RunStatus])
    assert_type(fleet.interrupts()[0], RunInterrupt)
    assert_type(run.resume({"a": Approve(), "b": Answer(1)}, by="alice"), str)
    events: Iterator[KernelEvent] = run.events(until="pause")
    assert_type(next(events), KernelEvent)
    assert_type(run.status().state, RunState)
    assert_type(fleet.enqueue_many([(plan, "a"), {"plan": plan, "request": "b", "priority": 9}]), list[Run[Any]])


async def async_client(fleet: AsyncFleet, plan: PlanSpec) -> None:
    """Do the same, awaited."""
    run = await fleet.enqueue(plan, "hi", output=Invoice)
    assert_type(run, AsyncRun[Invoice])
    assert_type((await run.result()).output, Invoice)
    assert_type(await fleet.runs(), Page[RunStatus])
    events: AsyncIterator[KernelEvent] = run.events(after=3)
    assert_type(await anext(events), KernelEvent)


def what_waits(run: Run[Invoice]) -> tuple[RunInterrupt, ...]:
    """Give what an error of a paused run holds: the same as `run.interrupts()`."""
    try:
        run.result()
    except RunPaused as paused:
        return assert_type(paused.interrupts, tuple[RunInterrupt, ...])
    return ()


def mistakes(fleet: Fleet, plan: PlanSpec, run: Run[Invoice]) -> None:
    """Make mistakes that a checker must refuse: were one accepted, mypy would report an unused ignore."""
    fleet.enqueue(plan, "hi", prioritty=9)  # type: ignore[call-overload]
    fleet.enqueue(plan, 5)  # type: ignore[call-overload]
    fleet.enqueue(plan, "hi", double_text="shout")  # type: ignore[call-overload]
    run.resume({"a": "yes"})  # type: ignore[dict-item]
    run.events(until="whenever")  # type: ignore[arg-type]
    fleet.runs(state="pausd")  # type: ignore[arg-type]
    for event in run.events():
        if event.kind == "text_dleta":  # type: ignore[comparison-overlap]
            break
    if run.status().state == "pausd":  # type: ignore[comparison-overlap]
        return
    number: str = run.result().output  # type: ignore[assignment]
    assert number
