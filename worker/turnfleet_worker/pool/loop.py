"""The event loop of a worker process, on a thread of its own beside the consumer's."""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

from turnfleet_worker.pool.executor import DaemonExecutor
from turnfleet_worker.pool.mailbox import Mailbox

__all__ = ["LoopThread"]

LAG_PERIOD_SECONDS: Final = 0.5
EXECUTOR_THREADS: Final = 32

_log = logging.getLogger(__name__)

T = TypeVar("T")


class LoopThread:
    """A daemon thread that runs one event loop from `start()` to `halt()`, and measures how late it wakes."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop = asyncio.new_event_loop()
        # asyncio.to_thread's own threads would be joined when the interpreter ends: a stuck one would keep the process.
        self._loop.set_default_executor(DaemonExecutor(EXECUTOR_THREADS, f"{name}-thread"))
        self._calls = Mailbox()
        self._calls.wake_by(self._loop.call_soon_threadsafe)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._halting = False
        self.lag_seconds = 0.0
        self.worst_lag_seconds = 0.0

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def call(self, function: Callable[..., object], *args: Any) -> None:
        """Have the loop call `function(*args)` soon; nothing happens once the loop is closed. Takes no lock."""
        with suppress(RuntimeError):
            self._calls.post(partial(function, *args))

    def submit(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Run a coroutine on the loop; the future is a thread's, not the loop's."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def halt(self, seconds: float) -> bool:
        """Cancel what is left, stop the loop and wait up to `seconds`; tell whether the thread ended.

        A thread that does not (a coroutine that blocks) is left behind: it is a daemon and ends with the process.
        """
        self._halting = True
        self.call(self._loop.stop)
        self._thread.join(seconds)
        ended = not self._thread.is_alive()
        if not ended:
            _log.warning("%s does not stop: something blocks the event loop; the process ends without it", self._name)
        return ended

    def _run(self) -> None:
        self._watch(self._loop.time())
        try:
            while not self._halting:
                try:
                    self._loop.run_forever()
                except (SystemExit, KeyboardInterrupt) as error:
                    # asyncio ends its loop with these two, and every run on it would stand still. Nobody asked this
                    # thread to end: signals reach the main one. Who waits for what raised it gets it now.
                    _log.error("something on %s raised %s, which was ignored", self._name, type(error).__name__)
            self._loop.run_until_complete(self._wind_up())
        finally:
            self._loop.close()

    async def _wind_up(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._loop.shutdown_asyncgens()

    def _watch(self, due: float) -> None:
        now = self._loop.time()
        self.lag_seconds = max(0.0, now - due)
        self.worst_lag_seconds = max(self.worst_lag_seconds, self.lag_seconds)
        self._loop.call_later(LAG_PERIOD_SECONDS, self._watch, now + LAG_PERIOD_SECONDS)
