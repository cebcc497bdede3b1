"""Settings that make no sense are refused with the reason; those that do are frozen."""

import pytest
from pydantic import ValidationError

from turnfleet_worker.settings import WorkerSettings


def test_the_defaults_are_those_of_the_design() -> None:
    """Lease, heartbeat, sweep, attempts, drain, re-offer, retention, log, shards (DESIGN 1, 3, 5)."""
    settings = WorkerSettings()
    assert (settings.lease_seconds, settings.heartbeat_seconds, settings.sweep_seconds) == (10, 3, 2)
    assert (settings.max_attempts, settings.drain_seconds, settings.reoffer_after_seconds) == (5, 20, 10)
    assert (settings.retention_seconds, settings.event_log_batches, settings.shards) == (86_400, 10_000, 16)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"heartbeat_seconds": 5}, "one heartbeat that comes late would lose the run"),
        ({"sweep_seconds": 11}, "would wait for the sweep"),
        ({"reoffer_after_seconds": 1}, "publish the whole backlog again"),
        ({"visibility_seconds": 9}, "while their run is being claimed"),
        ({"lease_seconds": 0}, "greater than 0"),
        ({"lease_seconds": float("nan")}, "finite number"),
        ({"drain_seconds": float("inf")}, "finite number"),
        ({"drain_seconds": -1}, "greater than or equal to 0"),
        ({"max_attempts": 0}, "greater than or equal to 1"),
        ({"shards": 0}, "greater than or equal to 1"),
        ({"leese_seconds": 3}, "Extra inputs are not permitted"),
    ],
)
def test_nonsense_is_refused_with_the_reason(changes: dict[str, float], reason: str) -> None:
    """The text says which setting, its value, and what would go wrong."""
    with pytest.raises(ValidationError, match=reason) as refusal:
        WorkerSettings(**changes)  # type: ignore[arg-type]
    assert next(iter(changes)) in str(refusal.value)


def test_settings_do_not_change_under_a_running_worker() -> None:
    """They are read at many moments; the answer is always the same."""
    with pytest.raises(ValidationError, match="frozen"):
        WorkerSettings().lease_seconds = 5
