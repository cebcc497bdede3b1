"""Calls that must happen in another thread, in the order they were posted.

Acknowledgements and events go over the consumer's connections, which belong to its thread. The hub's own `call_soon`
keeps its calls in a set, so that an end could overtake its start: the order is kept here, the hub is only woken.

The other way, to the event loop's thread, what counts is that one wake-up serves all calls that wait: each is a write
to a socket, and a switch between the two threads.
"""

import logging
from collections.abc import Callable
from queue import Empty, SimpleQueue

__all__ = ["Mailbox"]

_log = logging.getLogger(__name__)

Call = Callable[[], object]


class Mailbox:
    """A first-in, first-out queue of calls. `post` is safe from any thread; the rest belongs to the one that serves."""

    def __init__(self) -> None:
        # Its put is reentrant and takes no lock that a signal handler could find taken by the code it interrupted.
        self._calls: SimpleQueue[Call] = SimpleQueue()
        self._wake: Callable[[Call], object] | None = None
        self._woken = False

    def wake_by(self, call_soon: Callable[[Call], object]) -> None:
        """Use `call_soon` (a hub's, a loop's) to have the calls performed; until then they wait for `run_pending`."""
        self._wake = call_soon

    def post(self, call: Call) -> None:
        """Have `call` performed soon, after everything posted before it."""
        self._calls.put(call)
        if self._wake is not None and not self._woken:
            try:
                self._woken = True
                self._wake(self.run_pending)
            except BaseException:  # a signal's handler may raise in here: the next call must wake all the same
                self._woken = False
                raise

    def run_pending(self) -> None:
        """Perform every call that is here now."""
        # Before the first look: a call posted after the last one then wakes the hub again.
        self._woken = False
        while True:
            try:
                call = self._calls.get_nowait()
            except Empty:
                return
            _perform(call)

    def wait(self, seconds: float) -> bool:
        """Wait up to `seconds` for a call, perform it and all behind it; tell whether there was one."""
        try:
            call = self._calls.get(timeout=max(0.0, seconds))
        except Empty:
            return False
        _perform(call)
        self.run_pending()
        return True


def _perform(call: Call) -> None:
    try:
        call()
    except Exception:  # noqa: BLE001 - the consumer outlives any one message: from here it would leave the hub
        _log.exception("a call from another thread failed; the worker goes on")
