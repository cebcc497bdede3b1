"""From a test's own thread to the loop of its local fleet, and back."""

import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from concurrent.futures import CancelledError
from typing import Any, Final, TypeVar

from turnfleet_worker.pool.loop import LoopThread

T = TypeVar("T")

HALT_SECONDS: Final = 5.0
CLOSED: Final = "this local fleet is closed: use it, and its runs, inside of its `with`"
_END: Final[Any] = object()


class LoopCaller:
    """Runs coroutines on a loop in a thread of its own, for whoever waits in another thread."""

    def __init__(self) -> None:
        self._thread = LoopThread("turnfleet-local-fleet")
        self._ident: int | None = None
        self._open = False

    def open(self) -> None:
        """Start the thread."""
        self._thread.start()
        self._open = True
        self._ident = self.call(_thread_ident)

    def close(self) -> None:
        """End the thread, and what still runs on its loop."""
        self._open = False
        self._thread.halt(HALT_SECONDS)

    def call(self, work: Callable[[], Awaitable[T]]) -> T:
        """Call and await `work` on the loop; give what it returns, raise what it raises."""
        if not self._open:
            raise RuntimeError(CLOSED)
        if self._ident == threading.get_ident():
            raise RuntimeError(
                "this Fleet waits for the loop that it was called on: from a tool of a local fleet, call it in a plain "
                "function, which has a thread of its own"
            )
        future = self._thread.submit(_await(work))
        try:
            return future.result()
        except CancelledError:
            raise RuntimeError("this local fleet was closed while something waited for it") from None
        except BaseException:
            future.cancel()  # interrupted here: nobody waits for it any more
            raise

    def iterate(self, values: AsyncGenerator[T, None]) -> Generator[T, None, None]:
        """Give what an async iterator gives; it is closed with this one."""
        try:
            while (value := self.call(lambda: anext(values, _END))) is not _END:
                yield value
        finally:
            if self._open:
                self.call(values.aclose)


async def _await(work: Callable[[], Awaitable[T]]) -> T:
    return await work()


async def _thread_ident() -> int:
    return threading.get_ident()
