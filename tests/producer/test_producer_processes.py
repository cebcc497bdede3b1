"""Clients and what holds them: forks, event loops, threads, and a service's own Celery."""

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import celery
import pytest
from producer.kit import PLAN, Stage

from turnfleet import AsyncFleet, Fleet, WrongEventLoop


def test_clients_survive_a_fork() -> None:
    """The tests of forking.py, in a process that has no threads but its own."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:randomly", "-p", "no:cacheprovider"]
    forking = Path(__file__).with_name("forking.py")
    done = subprocess.run([*command, str(forking)], capture_output=True, text=True, timeout=240, check=False)
    assert "6 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("loops", ["asyncio", "uvloop"])
def test_an_async_client_belongs_to_one_event_loop(stage: Stage, loops: str) -> None:
    """On another loop it says so instead of hanging; the first loop goes on. So it is on uvloop's, where it is."""
    run_on = asyncio.run if loops == "asyncio" else pytest.importorskip("uvloop", reason="uvloop is not here").run
    fleet = AsyncFleet(stage.url, name=stage.fleet)

    async def first() -> None:
        run = await fleet.enqueue(PLAN, "hi", run_id="a")
        with pytest.raises(WrongEventLoop, match=stage.fleet):
            await asyncio.to_thread(lambda: run_on(run.status()))
        assert (await run.status()).state == "queued"
        await fleet.aclose()

    run_on(first())


def test_a_closed_async_client_may_go_on_in_another_loop(stage: Stage) -> None:
    """Closing gives the loop back, too."""
    fleet = AsyncFleet(stage.url, name=stage.fleet)

    async def enqueue(run_id: str) -> None:
        async with fleet:
            await fleet.enqueue(PLAN, "hi", run_id=run_id)

    asyncio.run(enqueue("a"))
    asyncio.run(enqueue("b"))
    assert stage.published() == ["a", "b"]


def test_threads_share_a_client(stage: Stage) -> None:
    """A threaded web server needs one client."""
    with Fleet(stage.url, name=stage.fleet) as fleet:
        threads = [
            threading.Thread(target=lambda place=place: fleet.enqueue(PLAN, "hi", run_id=f"run-{place}"))
            for place in range(20)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(stage.published()) == sorted(f"run-{place}" for place in range(20))


def test_the_sync_client_starts_no_thread(stage: Stage) -> None:
    """What it does, it does in the caller's thread, following events included."""
    with Fleet(stage.url, name=stage.fleet) as fleet:
        run = fleet.enqueue(PLAN, "hi")
        before = set(threading.enumerate())
        with pytest.raises(TimeoutError):
            next(run.events(timeout=0.1))
        assert set(threading.enumerate()) <= before


def test_a_services_own_celery_is_left_alone(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither its current app nor its environment gets into the fleet's messages, or the other way round."""
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://127.0.0.1:1/0")
    monkeypatch.setenv("CELERY_BROKER_WRITE_URL", "redis://127.0.0.1:1/0")
    app = celery.Celery("theirs", broker="memory://")
    app.set_current()
    with Fleet(stage.url, name=stage.fleet) as fleet:
        run = fleet.enqueue(PLAN, "hi")
    assert celery.current_app.main == "theirs"
    assert stage.published() == [run.run_id]


@pytest.mark.parametrize("statement", ["from turnfleet import *", "from turnfleet import Fleet; Fleet('redis://h')"])
def test_a_client_loads_neither_the_worker_nor_celery(statement: str) -> None:
    """Nor what is seldom used: a service's start is not slowed; Celery comes with the first run that is enqueued."""
    unwanted = ("turnfleet_worker", "celery", "kombu", "billiard", "amqp", "pydantic_ai", "jsonschema", "click", "rich")
    code = f"import sys; {statement}; print([name for name in sys.modules if name.startswith({unwanted})])"
    loaded = subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, capture_output=True, text=True)
    assert loaded.stdout.strip() == "[]"


def test_everything_that_users_name_is_exported() -> None:
    """Errors, decisions and values are found in one place (API.md)."""
    import turnfleet
    from turnfleet import errors, public

    assert turnfleet.__all__ == public.__all__
    assert all(hasattr(turnfleet, name) for name in turnfleet.__all__)
    assert set(errors.__all__) <= set(turnfleet.__all__)
    assert sorted(turnfleet.__all__) == list(turnfleet.__all__)
