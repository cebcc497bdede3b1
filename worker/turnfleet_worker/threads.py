"""Daemon threads for plain tool functions, so that a stuck one never holds up the end of the process."""

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future


class DaemonThreads:
    """At most `limit` daemon threads, started when needed and gone after `idle_seconds` without work.

    Not `asyncio.to_thread`: its pool is small (6 threads on two cores), and the interpreter waits for its threads at
    exit. Safe to share between event loops; nothing is started before the first call.
    """

    def __init__(self, limit: int = 256, *, idle_seconds: float = 10.0) -> None:
        if limit < 1:
            raise ValueError(f"limit={limit}: plain functions need at least 1 thread")
        self.limit = limit
        self._idle_seconds = idle_seconds
        self._changed = threading.Condition()
        self._calls: deque[tuple[Callable[[], object], Future[object]]] = deque()
        self._threads = 0
        self._idle = 0
        self._closed = False

    async def run(self, function: Callable[[], object], *, on_cancel: Callable[[], None] = lambda: None) -> object:
        """Run `function` in a thread, with the caller's contextvars, and give its result or raise what it raised.

        When the caller is cancelled, `on_cancel` is called; a call that no thread has taken yet is dropped, and a
        running one is waited for: its effect belongs to the run until it ends, and whoever cancels bounds the wait
        (CXL-4). A second cancellation leaves the thread behind.
        """
        context = contextvars.copy_context()
        future: Future[object] = Future()
        self._submit(lambda: context.run(function), future)
        waiter = asyncio.wrap_future(future)
        try:
            await asyncio.wait([waiter])
        except asyncio.CancelledError:
            on_cancel()
            if not future.cancel():
                await _settled(waiter)
            raise
        return waiter.result()

    @property
    def at_work(self) -> int:
        """How many calls have, or wait for, a thread."""
        with self._changed:
            return self._threads - self._idle + len(self._calls)

    def close(self) -> None:
        """Let idle threads end now, and others with their call; a call that comes later has a thread all the same."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _submit(self, call: Callable[[], object], future: "Future[object]") -> None:
        with self._changed:
            self._calls.append((call, future))
            if self._idle >= len(self._calls):
                self._changed.notify()
                return
            if self._threads >= self.limit:
                return  # the next thread that is done takes it
            self._threads += 1
        threading.Thread(target=self._serve, name="turnfleet-tool", daemon=True).start()

    def _serve(self) -> None:
        while taken := self._take():
            _perform(*taken)
            del taken  # an idle thread keeps no tool's values alive

    def _take(self) -> tuple[Callable[[], object], "Future[object]"] | None:
        with self._changed:
            while not self._calls:
                self._idle += 1
                notified = self._changed.wait(0 if self._closed else self._idle_seconds)
                self._idle -= 1
                if (self._closed or not notified) and not self._calls:
                    self._threads -= 1
                    return None
            return self._calls.popleft()


def _perform(call: Callable[[], object], future: "Future[object]") -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except StopIteration as stop:
        # A future cannot carry it: asyncio would drop it, and the caller would wait forever.
        error = RuntimeError("a function raised StopIteration")
        error.__cause__ = stop
        future.set_exception(error)
    except BaseException as error:  # noqa: BLE001 - a pause is a BaseException, and it is the caller's to see
        future.set_exception(error)
    else:
        future.set_result(result)


async def _settled(waiter: "asyncio.Future[object]") -> None:
    """Wait until the thread is done, whatever came of it; when cancelled again, let go of it."""
    try:
        await asyncio.wait([waiter])
    except asyncio.CancelledError:
        waiter.cancel()
        raise
    if not waiter.cancelled():
        waiter.exception()  # looked at, so that asyncio does not complain: the cancellation is what is reported
