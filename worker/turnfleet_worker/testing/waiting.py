"""What a run waits for, and how far it came, in words: for the error of a test that waited in vain."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from turnfleet.status import RunStatus
from turnfleet_kernel.contracts.events import KernelEvent

LATEST = 12
"""Steps of a run that are told."""


def explain(status: RunStatus, events: Sequence[KernelEvent], *, now: datetime, worker: bool, held: bool) -> str:
    """Say what a run that has not ended waits for.

    `now` by the fleet's clock; `worker`: whether there is one; `held`: whether it has the run, or a message about it.
    """
    match status.state:
        case "queued":
            return f"it is queued{_queued(status, now=now, worker=worker)}"
        case "parked":
            return f"it is parked: {status.parked_because}"
        case "running" if not held:
            return "its worker is gone, and its lease must run out first: fleet.skip(seconds=...)"
        case "running":
            return f"it is running; {_at(events)}"
        case state:
            return f"it is {state}"


def _queued(status: RunStatus, *, now: datetime, worker: bool) -> str:
    if status.eta is not None and status.eta > now:
        left = timedelta(seconds=round((status.eta - now).total_seconds()))
        return f" and not due for another {left}: fleet.skip(...)"
    if not worker:
        return " and there is no worker: fleet.start_worker()"
    if status.thread_id is not None:
        return (
            f"; another run of its thread {status.thread_id!r} may be in front, or its message was lost: "
            "fleet.skip(seconds=...) lets the sweep look"
        )
    return " and no message names it any more: fleet.skip(seconds=...) lets the sweep offer it again"


def _at(events: Sequence[KernelEvent]) -> str:
    called = {event.call_id: event.name for event in events if event.kind == "tool_call"}
    told = {event.call_id for event in events if event.kind == "tool_result"}
    waiting = [f"{name} ({call_id})" for call_id, name in called.items() if call_id not in told]
    return f"in a call of {', '.join(waiting)}" if waiting else "in a call of its model, or of a stage"


def story(events: Iterable[KernelEvent]) -> str:
    """Tell the latest steps of a run, names only, with the errors that its model was told."""
    steps: list[str] = []
    for event in events:
        match event.kind:
            case "text_delta" | "reasoning_delta" | "tool_call_delta" | "usage" | "stage" | "progress":
                continue
            case "tool_call":
                steps.append(f"calls {event.name}")
            case "tool_result" if event.outcome.error is not None:
                steps.append(f"{event.outcome.name} failed: {event.outcome.error}")
            case "tool_result":
                steps.append(f"{event.outcome.name} gave its result")
            case kind:
                steps.append(kind)
    return " -> ".join(["...", *steps[-LATEST:]] if len(steps) > LATEST else steps)
