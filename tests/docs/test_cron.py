"""The cron page: a real beat that ticks every second of the test's hour, and one run."""

from pathlib import Path

import pytest
from support.pages import Shop
from support.waiting import eventually

from turnfleet import Fleet

pytestmark = pytest.mark.slow


def test_many_ticks_of_one_hour_are_one_run(tmp_path: Path, own_redis_url: str) -> None:
    """The schedule alone is exchanged: an hour would be long to wait for."""
    every_second = {"crontab(minute=0)": "1.0", "from celery.schedules import crontab\n": ""}
    with Shop("docs/how-to/cron.md", tmp_path, redis_url=own_redis_url, addresses=every_second) as shop:
        shop.write("myfleet.py")
        with shop.running("worker") as worker, shop.running("beat"), Fleet(own_redis_url) as fleet:
            eventually(lambda: worker.log.count("Task reports.hourly") >= 4, what="ticks that were worked off")
            shop.shell("by hand")
            eventually(lambda: len(fleet.runs(state="completed")) > 0, what="the report")
            runs = fleet.runs()
            # Around the full hour there are two.
            assert len(runs) == len({f"hourly-report-{run.created_at:%Y-%m-%dT%H}" for run in runs})
            assert runs[0].run_id in shop.shell("runs")
