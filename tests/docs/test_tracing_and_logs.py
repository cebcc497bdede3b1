"""The page on traces and logs: three workers, one after the other, and what they print."""

from pathlib import Path

import pytest
from support.pages import Shop, prints
from support.waiting import eventually

pytestmark = pytest.mark.slow


def test_spans_and_log_lines_are_as_shown(tmp_path: Path, own_redis_url: str) -> None:
    """Each worker serves the same client; its output, whole, is compared with the page's."""
    with Shop("docs/how-to/tracing-and-logs.md", tmp_path, redis_url=own_redis_url) as shop:
        shop.write("telemetry.py", "myfleet.py", "ownlogs.py")
        for worker in ("worker", "worker with JSON", "worker with its own logging"):
            shown = shop.shown(worker)
            with shop.running(worker) as running:
                shop.python("ask.py")
                if worker == "worker":
                    eventually(lambda log=running: "CONSUMER" in log.log)  # type: ignore[misc]
            assert prints(shown, running.log), f"{worker}: the page shows\n{shown}\nand it prints\n{running.log}"
            if worker == "worker":
                line = next(line for line in running.log.splitlines() if "looked up" in line)
                assert "] looked up 1001 [run=" in line
                assert line.endswith("plan=support tenant=acme attempt=1]")
