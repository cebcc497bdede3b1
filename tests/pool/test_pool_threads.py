"""The small parts under the pool: ordered calls into one thread, threads that hold up nothing, the loop's thread."""

import asyncio
import logging
import subprocess
import sys
import threading
import time

import pytest
from support.waiting import eventually

from turnfleet_worker.pool import Delivery
from turnfleet_worker.pool.executor import DaemonExecutor
from turnfleet_worker.pool.loop import LoopThread
from turnfleet_worker.pool.mailbox import Mailbox


def test_calls_are_performed_in_the_order_they_were_posted() -> None:
    """A start is never overtaken by its end."""
    mailbox, seen = Mailbox(), list[int]()
    for number in range(100):
        mailbox.post(lambda number=number: seen.append(number))  # type: ignore[misc]
    mailbox.run_pending()
    assert seen == list(range(100))


def test_the_hub_is_woken_once_for_any_number_of_calls() -> None:
    """And again for the first call after it looked."""
    mailbox, woken = Mailbox(), list[object]()
    mailbox.wake_by(woken.append)
    for _ in range(3):
        mailbox.post(lambda: None)
    assert len(woken) == 1
    mailbox.run_pending()
    mailbox.post(lambda: None)
    assert len(woken) == 2


def test_a_wake_up_that_a_signal_broke_off_is_made_up_for() -> None:
    """The handler raised out of it, so that nobody was woken: the next call must not count on it."""
    mailbox, woken = Mailbox(), list[object]()

    def wake(call: object) -> None:
        woken.append(call)
        if len(woken) == 1:
            raise SystemExit

    mailbox.wake_by(wake)
    with pytest.raises(SystemExit):
        mailbox.post(lambda: None)
    mailbox.post(lambda: None)
    assert len(woken) == 2


def test_the_loop_performs_what_other_threads_ask_of_it_in_their_order() -> None:
    """Woken once for many, it misses none; after its end nothing happens, and nobody is hurt."""
    loop, seen, over = LoopThread("test-loop"), list[int](), threading.Event()
    for number in range(100):
        loop.call(seen.append, number)
    loop.start()
    loop.call(over.set)
    assert over.wait(20)
    assert seen == list(range(100))
    assert loop.halt(20)
    loop.call(seen.append, 100)
    assert len(seen) == 100


def test_a_call_that_fails_is_logged_and_the_next_is_performed(caplog: pytest.LogCaptureFixture) -> None:
    """One message's trouble is not the worker's."""
    mailbox, seen = Mailbox(), list[str]()
    mailbox.post(lambda: 1 / 0)
    mailbox.post(lambda: seen.append("next"))
    mailbox.run_pending()
    assert seen == ["next"]
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def test_a_wait_ends_with_the_first_call_or_the_time() -> None:
    """What the drain turns on."""
    mailbox, seen = Mailbox(), list[str]()
    assert mailbox.wait(0.01) is False
    threading.Timer(0.05, mailbox.post, [lambda: seen.append("posted")]).start()
    assert mailbox.wait(60) is True
    assert seen == ["posted"]


def test_an_executor_uses_no_more_threads_than_its_limit() -> None:
    """Twenty calls over three threads, and a fourth thread never."""
    executor, names, gate = DaemonExecutor(3, "few"), set[str](), threading.Barrier(3)

    def call() -> None:
        names.add(threading.current_thread().name)
        gate.wait(60)

    for future in [executor.submit(call) for _ in range(21)]:
        future.result(10)
    executor.shutdown()
    assert names == {"few-1", "few-2", "few-3"}


def test_an_idle_thread_is_used_before_another_is_started() -> None:
    """One call after the other needs one thread."""
    executor, names = DaemonExecutor(3, "idle"), set[str]()
    for _ in range(5):
        executor.submit(lambda: names.add(threading.current_thread().name)).result(10)
        eventually(lambda: executor._idle == 1)
    executor.shutdown()
    assert names == {"idle-1"}


def test_an_executors_future_tells_what_was_raised() -> None:
    """Whatever left the call, SystemExit included."""

    def leave() -> None:
        raise SystemExit(3)

    executor = DaemonExecutor(1, "raising")
    with pytest.raises(SystemExit):
        executor.submit(leave).result(10)
    executor.shutdown()
    with pytest.raises(RuntimeError, match="the worker is stopping"):
        executor.submit(leave)


STUCK = """
import asyncio, threading, time
from turnfleet_worker.pool.loop import LoopThread
loop = LoopThread("l")
loop.start()
loop.submit(asyncio.to_thread(time.sleep, 300))
async def block():
    time.sleep(300)
loop.submit(block())
print(loop.halt(0.2))
"""


def test_neither_a_stuck_thread_nor_a_blocked_loop_keeps_the_interpreter() -> None:
    """The stock executor would be joined at exit, for five minutes here (DESIGN 6)."""
    ended = subprocess.run([sys.executable, "-c", STUCK], capture_output=True, text=True, timeout=240, check=True)
    assert ended.stdout.strip() == "False"


def test_a_loop_thread_cancels_what_is_left_when_it_is_halted() -> None:
    """Clean-up code of a coroutine still runs."""
    loop, seen = LoopThread("halting"), list[str]()
    started = threading.Event()

    async def work() -> None:
        started.set()
        try:
            await asyncio.sleep(300)
        finally:
            seen.append("cleaned up")

    loop.start()
    loop.submit(work())
    assert started.wait(60)
    assert loop.halt(10) is True
    assert seen == ["cleaned up"]


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_nothing_on_a_loop_thread_ends_it(error: type[BaseException], caplog: pytest.LogCaptureFixture) -> None:
    """These two end a loop of asyncio's. The task that raised one has it; the others go on, and the loop can halt."""
    loop = LoopThread("lasting")
    neighbour = threading.Event()

    async def end() -> None:
        raise error

    async def work() -> None:
        await asyncio.create_task(end())

    async def wait() -> str:
        await asyncio.to_thread(neighbour.wait, 60)
        return "went on"

    loop.start()
    other = loop.submit(wait())
    with pytest.raises(error):
        loop.submit(work()).result(60)
    neighbour.set()
    assert other.result(60) == "went on"
    assert loop.halt(10) is True
    assert f"something on lasting raised {error.__name__}, which was ignored" in caplog.text


def test_a_loop_thread_measures_how_late_it_wakes() -> None:
    """A coroutine that blocks shows as lag."""
    loop = LoopThread("lagging")
    loop.start()
    loop.call(time.sleep, 0.8)
    eventually(lambda: loop.worst_lag_seconds > 0.2)
    loop.halt(10)


def test_a_delivery_is_accepted_once_from_any_number_of_threads() -> None:
    """Idempotent and thread-safe: one acknowledgement leaves."""
    calls = list[int]()
    delivery = Delivery(task_id="r1", root_id="r1", redelivered=False, hostname="w")
    delivery.on_accept(lambda: calls.append(1))
    threads = [threading.Thread(target=delivery.accept) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls == [1]
    assert delivery.accepted is True
