"""Plain functions run in daemon threads that a stuck call cannot turn into a stuck process."""

import asyncio
import contextvars
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from turnfleet_worker.threads import DaemonThreads


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what only another thread changes."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.001)


WHO = contextvars.ContextVar("WHO", default="nobody")


async def test_a_function_runs_beside_the_loop_with_the_callers_context() -> None:
    """It sees the caller's contextvars, and what it sets stays with it (RCX-10)."""
    WHO.set("alice")

    def work() -> tuple[str, bool]:
        seen = WHO.get()
        WHO.set("mallory")
        return seen, threading.current_thread() is threading.main_thread()

    assert await DaemonThreads().run(work) == ("alice", False)
    assert WHO.get() == "alice"


async def test_calls_run_at_once_up_to_the_limit() -> None:
    """Two of two run together; a third waits for a thread."""
    threads = DaemonThreads(2)
    met = threading.Barrier(2, timeout=30)
    together = [asyncio.create_task(threads.run(met.wait)) for _ in range(4)]
    await asyncio.gather(*together)
    assert threads._threads == 2


async def test_idle_threads_are_used_again_and_leave_in_the_end() -> None:
    """A second call needs no second thread, and without work none is kept."""
    threads = DaemonThreads(idle_seconds=0.05)
    first = await threads.run(threading.get_ident)
    await until(lambda: threads._idle == 1)
    assert await threads.run(threading.get_ident) == first
    await until(lambda: threads._threads == 0)


async def test_what_a_function_raises_reaches_the_caller() -> None:
    """Also StopIteration, which asyncio's futures would swallow together with the caller."""
    threads = DaemonThreads()

    def fail(error: BaseException) -> None:
        raise error

    with pytest.raises(KeyError):
        await threads.run(lambda: fail(KeyError("x")))
    with pytest.raises(RuntimeError, match="StopIteration"):
        await threads.run(lambda: fail(StopIteration()))


async def test_a_cancelled_call_is_told_and_waited_for() -> None:
    """Its effect belongs to the run until it ends (CXL-4)."""
    started, told, finish, ended = (threading.Event() for _ in range(4))

    def work() -> None:
        started.set()
        assert finish.wait(30)
        ended.set()

    call = asyncio.create_task(DaemonThreads().run(work, on_cancel=told.set))
    await asyncio.to_thread(started.wait, 30)
    call.cancel()
    await asyncio.to_thread(told.wait, 30)
    assert not call.done()
    finish.set()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert ended.is_set()


async def test_a_second_cancellation_lets_go_of_a_stuck_thread() -> None:
    """Whoever cancels decides how long to wait."""
    started, release = threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        assert release.wait(30)

    call = asyncio.create_task(DaemonThreads().run(work))
    await asyncio.to_thread(started.wait, 30)
    for _ in range(2):
        call.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await call
    release.set()


async def test_a_call_that_no_thread_took_is_dropped_when_cancelled() -> None:
    """Work that never started has no effect to wait for."""
    threads = DaemonThreads(1)
    started, release, ran = threading.Event(), threading.Event(), threading.Event()

    def block() -> None:
        started.set()
        assert release.wait(30)

    first = asyncio.create_task(threads.run(block))
    await asyncio.to_thread(started.wait, 30)
    second = asyncio.create_task(threads.run(ran.set))
    await asyncio.sleep(0)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    release.set()
    await first
    await threads.run(lambda: None)
    assert not ran.is_set()


_STUCK = """
import asyncio, threading
from turnfleet_worker.threads import DaemonThreads
async def main():
    started = threading.Event()
    def stuck():
        started.set()
        threading.Event().wait()
    call = asyncio.create_task(DaemonThreads().run(stuck))
    await asyncio.to_thread(started.wait, 30)
    for _ in range(2):
        call.cancel()
        await asyncio.sleep(0)
    try:
        await call
    except asyncio.CancelledError:
        print("left")
asyncio.run(main())
"""


def test_a_stuck_thread_does_not_hold_up_the_end_of_the_process() -> None:
    """A worker always ends, whatever a tool does."""
    ended = subprocess.run([sys.executable, "-c", _STUCK], capture_output=True, text=True, timeout=240, check=True)
    assert (ended.stdout, ended.stderr) == ("left\n", "")
