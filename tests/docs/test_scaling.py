"""The scaling page: two workers, two queues, and what they say."""

from pathlib import Path

import pytest
from support.pages import Shop

from turnfleet import Fleet

pytestmark = pytest.mark.slow


def test_each_queue_has_its_worker(tmp_path: Path, own_redis_url: str) -> None:
    """A run of each queue is completed, each by the worker that reads it."""
    with Shop("docs/how-to/scaling.md", tmp_path, redis_url=own_redis_url) as shop:
        shop.write("myfleet.py")
        with shop.running("a worker for people who wait"), shop.running("a worker for the night"):
            shop.python("enqueue.py")
            with Fleet(own_redis_url) as fleet:
                assert len({run.worker for run in fleet.runs()}) == 2
            assert shop.shell("what the workers say").count("echo") >= 2
