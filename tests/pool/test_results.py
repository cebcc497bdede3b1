"""How a result is shown: as Celery shows it, and no longer."""

import pytest
from celery.utils.saferepr import saferepr

from turnfleet_worker.pool.ending import _shown


@pytest.mark.parametrize(
    "value",
    [
        {"state": "completed", "run_id": "r1"},
        {"state": "paused", "interrupts": [{"id": "approval:c1", "kind": "approval", "tool": None}], "run_id": "r1"},
        {"state": "completed", "answer": "said 'yes' \u2026 and\nno", "run_id": "r1"},
        {"state": "completed", "answer": "word " * 1000, "run_id": "r1"},
        None,
    ],
)
def test_a_result_is_shown_as_celery_shows_it(value: object) -> None:
    """Short ones without its detour; long ones cut as it cuts them."""
    assert _shown(value, 1024) == saferepr(value, 1024)
    assert len(_shown(value, 1024)) <= 1100
