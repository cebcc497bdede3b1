"""What is said of a task whose worker was lost, and what Celery's own picture of tasks makes of it."""

from typing import Any

import pytest
from celery.events.state import State

from turnfleet.store.records import LostTask
from turnfleet_worker.telling import event_of


def lost(state: str, error: str | None = None) -> LostTask:
    """Give the first task of a run whose worker was lost."""
    return LostTask("run-1", "run-1", "box:7", state, 2, error)


def seen(*events: tuple[str, dict[str, Any]]) -> Any:
    """Return the task as whoever watches sees it after these events."""
    picture: Any = State()
    for clock, (kind, fields) in enumerate(events):
        hostname = "dead@box" if kind in {"task-received", "task-started"} else "sweeps@box"
        times = {"timestamp": float(clock), "local_received": float(clock), "clock": clock}
        picture.event({"type": kind, "hostname": hostname, "uuid": "run-1", **times, **fields})
    return picture.tasks["run-1"]


@pytest.mark.parametrize(
    ("state", "error", "shown", "says"),
    [
        ("queued", None, "RETRY", "worker box:7 was lost; the run goes on as run-1:2"),
        ("failed", "WorkerLost: 5 workers in a row", "FAILURE", "WorkerLost: 5 workers in a row"),
        ("cancelled", None, "REVOKED", None),
        ("expired", None, "REVOKED", None),
    ],
)
def test_a_task_whose_worker_was_lost_is_started_no_longer(
    state: str, error: str | None, shown: str, says: str | None
) -> None:
    """It takes the state of what became of the run; whoever lost it is named."""
    kind, fields = event_of(lost(state, error))
    task = seen(("task-received", {"name": "support (turn 1)"}), ("task-started", {}), (kind, dict(fields)))
    assert (task.state, task.exception, task.name) == (shown, says, "support (turn 1)")


def test_a_message_that_comes_again_shows_what_it_then_comes_to() -> None:
    """Its first worker died before the broker heard of the claim: the same task is then begun again by another."""
    kind, fields = event_of(lost("queued"))
    task = seen(("task-started", {}), (kind, dict(fields)), ("task-started", {}), ("task-succeeded", {"result": "'x'"}))
    assert task.state == "SUCCESS"
