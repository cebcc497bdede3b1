"""What a person sees in Flower's pages, in a real browser. `make screenshots` keeps the pictures (docs/img)."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from support.browser import Browser, browser
from support.flower_process import FlowerProcess
from support.redis_server import RedisServer
from support.waiting import eventually
from support.worker_process import WorkerProcess

from turnfleet import Approve, Fleet, PlanSpec

SUPPORT = PlanSpec(name="support", model="obedient", tools=("pay",))
RESEARCH = PlanSpec(name="research", model="obedient")


@dataclass(frozen=True)
class Shop:
    """A fleet with something to see."""

    fleet: Fleet
    flower: FlowerProcess
    worker: WorkerProcess


@pytest.fixture(scope="module")
def shop(redis_server: RedisServer, shared_fleet_name: str) -> Iterator[Shop]:
    """Give a fleet on which runs completed, failed, were cancelled, and wait for a person."""
    name = f"shop-{shared_fleet_name}"
    env = {"TURNFLEET_REDIS_URL": redis_server.url, "TURNFLEET_NAME": name}
    with (
        Fleet(redis_server.url, name=name, poll_interval=0.5) as fleet,
        FlowerProcess("cli.apps.desk", env=env) as flower,
        WorkerProcess("cli.apps.desk", concurrency=50, env=env, name="worker1") as worker,
    ):
        eventually(lambda: worker.hostname in flower.get("/api/workers?status=1"), what="Flower sees the worker")
        for number in range(1001, 1007):
            fleet.enqueue(RESEARCH, f"question {number}", run_id=f"question-{number}").result(timeout=60)
        fleet.enqueue(RESEARCH, "fail", run_id="question-1007")
        paid = fleet.enqueue(SUPPORT, "pay 30", run_id="ticket-1001")
        late = fleet.enqueue(SUPPORT, "pay 80", run_id="ticket-1003")
        eventually(lambda: {run.status().state for run in (paid, late)} == {"paused"})
        late.cancel("the customer withdrew")
        (asked,) = paid.interrupts()
        paid.resume({asked.id: Approve()}, by="alice", roles=("finance",))
        eventually(lambda: paid.status().state == "completed")
        waiting = fleet.enqueue(SUPPORT, "pay 40", run_id="ticket-1002")
        eventually(lambda: waiting.status().state == "paused")
        eventually(lambda: flower.states("ticket-1002") == {"ticket-1002": "SUCCESS"})
        eventually(lambda: flower.states("question-1007") == {"question-1007": "FAILURE"})
        yield Shop(fleet, flower, worker)


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    """Give a browser, or skip."""
    with browser() as one:
        yield one


@pytest.mark.slow
def test_the_pages_show_runs_and_workers_to_a_person(window: Browser, shop: Shop) -> None:
    """Workers, the list of tasks, a run by its id, a paused run, a failed one, and a worker's own statistics."""
    flower, worker = shop.flower, shop.worker.hostname
    window.open(f"{flower.address}/workers")
    window.wait_for(worker, "Online")
    window.picture("flower-workers", height=570)

    window.open(f"{flower.address}/tasks")
    window.wait_for("support (turn 1)", "support (turn 2)", "research (turn 1)", "FAILURE", "'paused'", "'completed'")
    window.picture("flower-tasks", height=880)
    window.type("input[type=search]", "ticket-1001")
    window.wait_for("ticket-1001:2", "filtered from")
    assert "question-1001" not in window.text
    window.picture("flower-search", height=500)

    window.open(f"{flower.address}/task/ticket-1002")
    window.wait_for("support (turn 1)", "'state': 'paused'", "approval:pay-40", "'plan': 'support'", "'turn': 1")
    window.picture("flower-paused", height=720)

    window.open(f"{flower.address}/task/question-1007")
    window.wait_for("FAILURE", "RuntimeError", "the model has a bad day", "Traceback (most recent call last)")
    window.picture("flower-failed", height=1180)

    window.open(f"{flower.address}/worker/{worker}")
    window.wait_for("Claims per second", "Loop lag seconds", "claimed: 11", "In flight", "Draining")
    window.picture("flower-worker", height=1000)


@pytest.mark.slow
def test_a_browser_without_the_password_sees_nothing(window: Browser, shop: Shop) -> None:
    """Not a page, not a name."""
    window.driver.execute_cdp_cmd("Network.clearBrowserCache", {})
    window.open(f"http://localhost:{shop.flower.port}/tasks")
    assert "ticket" not in window.text
    assert "support" not in window.text
