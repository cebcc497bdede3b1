"""Clients over a fork. Run by test_producer_processes.py in a process of its own.

Who forks must know its threads: a test process has those that earlier tests, and its runner, left, and a lock that one
of them holds at the moment of the fork stays locked in the child for ever.
"""

import asyncio
import gc
import multiprocessing
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from producer.kit import PLAN, Stage
from support.waiting import eventually

from turnfleet import AsyncFleet, Fleet


@contextmanager
def _forked(work: Callable[[], None]) -> Iterator[None]:
    """Run `work` in a forked child beside the block; assert that the child ended well."""
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    yield
    child.join(60)
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


def test_a_reader_that_was_open_before_a_fork_goes_on_in_both(stage: Stage) -> None:
    """The child subscribes for itself: a message on a shared socket would reach one of the two."""
    with Fleet(stage.url, name=stage.fleet, poll_interval=3600) as fleet:
        run = fleet.enqueue(PLAN, "hi")
        claim = stage.claim(run.run_id)
        stage.says(claim, "before")
        reader = run.events()
        next(reader)
        helper = threading.Thread(target=while_it_listens, args=(stage, run.run_id, lambda: stage.says(claim, "live")))
        helper.start()
        assert next(reader).index == 1
        helper.join()

        with _forked(lambda: os._exit([event.index for event in reader] != [2, 3, 4])):
            eventually(lambda: stage.subscribers(run.run_id) == 2, what="two subscribers")
            stage.says(claim, "one")
            stage.says(claim, "two")
            stage.completes(claim)
            assert [event.index for event in reader] == [2, 3, 4]


def test_what_a_child_lets_go_is_not_taken_from_the_parents_loop(stage: Stage) -> None:
    """A forked loop shares its epoll: the parent's would hear no more of a socket that the child's closes."""

    async def parent() -> None:
        async with AsyncFleet(stage.url, name=stage.fleet, timeout=2) as fleet:
            run = await fleet.enqueue(PLAN, "hi")

            async def child() -> None:
                warnings.simplefilter("ignore", ResourceWarning)  # as everywhere but in tests
                await run.status()
                gc.collect()

            with _forked(lambda: asyncio.run(child())):
                pass
            assert (await run.status()).state == "queued"

    asyncio.run(parent())


def test_an_async_reader_goes_on_in_both(stage: Stage) -> None:
    """The child subscribes on its own loop."""

    async def parent() -> None:
        async with AsyncFleet(stage.url, name=stage.fleet, poll_interval=3600) as fleet:
            run = await fleet.enqueue(PLAN, "hi")
            claim = stage.claim(run.run_id)
            stage.says(claim, "before")
            reader = run.events()
            await anext(reader)
            live = asyncio.ensure_future(anext(reader))
            await asyncio.to_thread(while_it_listens, stage, run.run_id, lambda: stage.says(claim, "live"))
            assert (await live).index == 1

            async def rest() -> list[int]:
                return [event.index async for event in reader]

            with _forked(lambda: os._exit(asyncio.run(rest()) != [2, 3])):
                await asyncio.to_thread(eventually, lambda: stage.subscribers(run.run_id) == 2, what="two subscribers")
                stage.says(claim, "one")
                stage.completes(claim)
                async with asyncio.timeout(60):
                    assert [event.index async for event in reader] == [2, 3]

    asyncio.run(parent())


def while_it_listens(stage: Stage, run_id: str, act: Callable[[], None]) -> None:
    """Do something once somebody follows the run."""
    eventually(lambda: stage.subscribers(run_id) == 1)
    act()
