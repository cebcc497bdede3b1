"""The page for bad days: each trouble is made, found with the page's command, and mended with its action."""

import inspect
import re
from pathlib import Path

import pytest
from support.pages import ROOT, Shop
from support.waiting import eventually

from turnfleet import Fleet
from turnfleet.doctor import broker_rules, redis_rules, run_rules, worker_rules

PAGE = "docs/how-to/when-something-is-wrong.md"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_each_trouble_is_found_and_mended(tmp_path: Path, own_redis_url: str) -> None:
    """In the order of the page: unread queue, failed run, killed worker, call in doubt, decisions, cancel."""
    with (
        Shop("docs/how-to/when-something-is-wrong.md", tmp_path, redis_url=own_redis_url) as shop,
        Fleet(own_redis_url) as fleet,
    ):
        shop.write("myfleet.py")

        def becomes(run_id: str, state: str) -> None:
            eventually(lambda: fleet.run(run_id).status().state == state, 60, what=f"{run_id} is {state}")

        with shop.running("a worker whose provider is down"):
            eventually(fleet.workers, 60, what="the worker")
            shop.python("enqueue.py")
            for run_id, state in (("ticket-1001", "paused"), ("order-1002", "running"), ("question-1", "failed")):
                becomes(run_id, state)
            assert "something is to be done" in shop.shell("first look", timeout=150)
            shop.shell("why")
            shop.shell("read that queue, too")
            becomes("report-1", "completed")
            shop.shell("which, and why")
            eventually(lambda: _charging(fleet), 60, what="the call that will be in doubt")
            shop.shell("end it")
            with shop.running("a worker whose provider answers"):
                becomes("order-1002", "paused")
                assert "question-1" in shop.shell("retry what failed", timeout=150)
                becomes("question-1", "completed")
                shop.shell("what is asked")
                shop.shell("it happened")
                becomes("order-1002", "completed")
                shop.shell("decide")
                becomes("ticket-1001", "completed")
                shop.shell("who decided")
                shop.python("decisions.py")
                shop.shell("cancel a tenant's runs", timeout=150)


def _charging(fleet: Fleet) -> bool:
    events = fleet.run("order-1002").events(timeout=5)
    return any(event.kind == "tool_call" for event in events)


def test_the_page_names_checks_and_alerts_that_there_are() -> None:
    """An alert without a line on the page is noticed, and so is a check that the doctor does not make."""
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    alerts = re.findall(r"- alert: (\w+)", (ROOT / "docs/how-to/monitoring.md").read_text(encoding="utf-8"))
    assert [name for name in alerts if name not in page] == []
    rules = (broker_rules, redis_rules, run_rules, worker_rules)
    made = {check for each in rules for check in re.findall(r'"([a-z]+\.[a-z]+)"', inspect.getsource(each))}
    named = set(re.findall(r"`((?:redis|broker|queues|workers|clock|runs)\.[a-z]+)`", page))
    assert named
    assert named - made == set()
