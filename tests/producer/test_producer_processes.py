"""Clients and what holds them: forks, event loops, threads, and a service's own Celery."""

import asyncio
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import celery
import pytest
from producer.kit import PLAN, Stage

from turnfleet import AsyncFleet, Fleet, WrongEventLoop


@contextmanager
def _forked(work: Callable[[], None]) -> Iterator[None]:
    """Run `work` in a forked child beside the block; assert that the child ended well."""
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    yield
    child.join(30)
    assert child.exitcode == 0


pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def test_a_forked_child_opens_its_own_connections(stage: Stage) -> None:
    """A preforking web server makes its client once and uses it in every child; replies never mix."""
    with Fleet(stage.url, name=stage.fleet) as fleet:
        fleet.enqueue(PLAN, "hi", run_id="parent-1")

        def child() -> None:
            for place in range(20):
                run = fleet.enqueue(PLAN, "hi", run_id=f"child-{place}")
                if run.status().run_id != run.run_id:
                    os._exit(3)

        with _forked(child):
            for place in range(20):
                run = fleet.enqueue(PLAN, "hi", run_id=f"parent-{place}")
                assert run.status().run_id == run.run_id
    expected = [f"{who}-{place}" for who in ("child", "parent") for place in range(20)]
    assert sorted(stage.published()) == sorted(expected)


def test_no_connection_is_taken_over_by_a_child(stage: Stage) -> None:
    """Neither to Redis nor to the broker: not even the first command of the child goes over a parent's socket."""
    with Fleet(stage.url, name=stage.fleet) as fleet:
        fleet.enqueue(PLAN, "hi")
        executor, publisher = fleet._line._executor, fleet._line._broker

        def child() -> None:
            assert publisher._take_idle() is None
            assert fleet._line._executor is not executor

        with _forked(child):
            pass
        assert publisher._take_idle() is not None
        assert fleet._line._executor is executor


def test_an_async_client_made_before_a_fork_works_in_the_child(stage: Stage) -> None:
    """The child has a loop of its own, and connections of its own."""
    fleet = AsyncFleet(stage.url, name=stage.fleet)

    async def enqueue(run_id: str) -> None:
        await fleet.enqueue(PLAN, "hi", run_id=run_id)
        await fleet.aclose()

    asyncio.run(enqueue("parent"))
    with _forked(lambda: asyncio.run(enqueue("child"))):
        pass
    assert stage.published() == ["parent", "child"]


def test_an_async_client_belongs_to_one_event_loop(stage: Stage) -> None:
    """On another loop it says so instead of hanging; the first loop goes on."""
    fleet = AsyncFleet(stage.url, name=stage.fleet)

    async def first() -> None:
        run = await fleet.enqueue(PLAN, "hi", run_id="a")
        with pytest.raises(WrongEventLoop, match=stage.fleet):
            await asyncio.to_thread(lambda: asyncio.run(run.status()))
        assert (await run.status()).state == "queued"
        await fleet.aclose()

    asyncio.run(first())


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
        before = threading.active_count()
        with pytest.raises(TimeoutError):
            next(run.events(timeout=0.1))
        assert threading.active_count() == before


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


def test_the_public_face_needs_no_worker() -> None:
    """`import turnfleet` loads neither the worker wing nor what is slow and seldom used (STYLE, "The house")."""
    unwanted = ("turnfleet_worker", "pydantic_ai", "jsonschema")
    code = f"import sys, turnfleet; print([name for name in sys.modules if name.startswith({unwanted})])"
    loaded = subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, capture_output=True, text=True)
    assert loaded.stdout.strip() == "[]"


def test_everything_that_users_name_is_exported() -> None:
    """Errors, decisions and values are found in one place (API.md)."""
    import turnfleet
    from turnfleet import errors

    assert all(hasattr(turnfleet, name) for name in turnfleet.__all__)
    assert set(errors.__all__) <= set(turnfleet.__all__)
    assert sorted(turnfleet.__all__) == list(turnfleet.__all__)
