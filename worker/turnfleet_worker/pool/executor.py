"""Threads that never hold up the end of the process."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

__all__ = ["DaemonExecutor"]

P = ParamSpec("P")
T = TypeVar("T")


class DaemonExecutor(ThreadPoolExecutor):
    """At most `limit` daemon threads, started when needed.

    The stock executor's threads are joined when the interpreter ends, so that one stuck call keeps the process.
    Only its type is used here, because asyncio accepts nothing else as a loop's default executor.
    """

    def __init__(self, limit: int, name: str) -> None:
        super().__init__(max_workers=limit, thread_name_prefix=name)
        self._most = limit
        self._name = name
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._guard = threading.Lock()
        self._idle = 0
        self._started = 0
        self._closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have a thread call `fn`; the future tells how it ended. Raises RuntimeError after `shutdown`."""
        future: Future[T] = Future()
        with self._guard:
            if self._closed:
                raise RuntimeError("these threads were shut down: the worker is stopping")
            self._calls.put((future, lambda: fn(*args, **kwargs)))
            if self._idle:
                self._idle -= 1
            elif self._started < self._most:
                self._started += 1
                name = f"{self._name}-{self._started}"
                threading.Thread(target=self._serve, name=name, daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls; never waits, whatever was asked: that is the point of it."""
        del wait, cancel_futures
        with self._guard:
            if not self._closed:
                self._closed = True
                for _ in range(self._started):
                    self._calls.put(None)

    def _serve(self) -> None:
        while (taken := self._calls.get()) is not None:
            _perform(*taken)
            del taken
            with self._guard:
                # A call that waits already counts on a thread: only a free thread beyond those is idle.
                if self._calls.empty():
                    self._idle += 1


def _perform(future: Future[Any], call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:  # noqa: BLE001 - whoever waits for the future gets it
        future.set_exception(error)
    else:
        future.set_result(result)
