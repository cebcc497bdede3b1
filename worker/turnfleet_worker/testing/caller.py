"""From a test's own thread to a local fleet on the loop of another, and back."""

import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from concurrent.futures import CancelledError
from typing import Any, Final, Generic, TypeVar

from turnfleet_worker.pool.loop import LoopThread

T = TypeVar("T")
FleetT = TypeVar("FleetT")

HALT_SECONDS: Final = 5.0
CLOSED: Final = "this local fleet is closed: use it, and its runs, inside of its `with`"
_END: Final[Any] = object()


class LoopCaller(Generic[FleetT]):
    """Calls a fleet on a loop in a thread of its own, for whoever waits in another thread.

    Thread, loop and fleet begin with their first use, and end once; what nobody ends is gone with the process.
    """

    def __init__(self, opening: Callable[[], Awaitable[FleetT]], leaving: Callable[[FleetT], Awaitable[None]]) -> None:
        self._opening = opening
        self._leaving = leaving
        self._lock = threading.Lock()
        self._thread: LoopThread | None = None
        self._ident: int | None = None
        self._fleet: FleetT | None = None
        self.ended = False

    @property
    def begun(self) -> bool:
        """Whether there is, or was, a fleet."""
        return self._fleet is not None

    @property
    def fleet(self) -> FleetT:
        """The fleet, which begins now if it has not. Raises RuntimeError when it has ended."""
        if self.ended:
            raise RuntimeError(CLOSED)
        if self._fleet is None:
            self._begin()
        assert self._fleet is not None
        return self._fleet

    def _begin(self) -> None:
        with self._lock:
            if self._fleet is not None:
                return
            thread = LoopThread("turnfleet-local-fleet")
            thread.start()
            try:
                self._ident = thread.submit(_thread_ident()).result()
                self._fleet = thread.submit(_await(self._opening)).result()
            except BaseException:
                thread.halt(HALT_SECONDS)
                raise
            self._thread = thread

    def end(self) -> None:
        """End the fleet, its thread, and what still runs on its loop; one that has not begun will not."""
        self._refuse_own_thread()
        with self._lock:
            if self.ended:
                return
            self.ended = True
            thread, fleet = self._thread, self._fleet
        if thread is None or fleet is None:
            return
        try:
            thread.submit(_await(lambda: self._leaving(fleet))).result()
        finally:
            thread.halt(HALT_SECONDS)

    def call(self, work: Callable[[FleetT], Awaitable[T]]) -> T:
        """Call and await `work` on the loop; give what it returns, raise what it raises."""
        fleet = self.fleet
        self._refuse_own_thread()
        assert self._thread is not None
        future = self._thread.submit(_await(lambda: work(fleet)))
        try:
            return future.result()
        except CancelledError:
            raise RuntimeError("this local fleet was closed while something waited for it") from None
        except BaseException:
            future.cancel()  # interrupted here: nobody waits for it any more
            raise

    def iterate(self, values: Callable[[FleetT], AsyncGenerator[T, None]]) -> Generator[T, None, None]:
        """Give what an async iterator gives; it is closed with this one."""
        theirs = values(self.fleet)
        try:
            while (value := self.call(lambda _: anext(theirs, _END))) is not _END:
                yield value
        finally:
            if not self.ended:
                self.call(lambda _: theirs.aclose())

    def _refuse_own_thread(self) -> None:
        if self._ident == threading.get_ident():
            raise RuntimeError(
                "this Fleet waits for the loop that it was called on: from a tool of a local fleet, call it in a plain "
                "function, which has a thread of its own"
            )


async def _await(work: Callable[[], Awaitable[T]]) -> T:
    return await work()


async def _thread_ident() -> int:
    return threading.get_ident()
