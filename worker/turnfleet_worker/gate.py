"""The points between two steps of a run at which it can be stopped (CXL-3, CXL-7)."""

import asyncio
from collections.abc import Callable
from typing import NoReturn

from turnfleet_kernel.contracts.interrupts import InvocationPreempted


class Gate:
    """Stands before each model call and each tool call of an invocation, its delegated runs' included.

    `draining` says whether runs are to hand over. `stop_again` cancels the invocation once more and gives True, if it
    is to be stopped: a cancellation reaches whatever code runs at that moment, and some libraries swallow it.
    """

    def __init__(self, *, draining: Callable[[], bool], stop_again: Callable[[], bool]) -> None:
        self._draining = draining
        self._stop_again = stop_again

    async def pass_through(self) -> None:
        """Come back if the run may go on.

        Raises InvocationPreempted when it is to be handed over: everything so far is recorded.
        """
        if self._stop_again():
            await self._cancellation()
        if self._draining():
            raise InvocationPreempted("the worker is stopping")

    async def stay(self) -> NoReturn:
        """Never come back: nothing may start any more, and the invocation's cancellation is on its way."""
        self._stop_again()
        await self._cancellation()

    async def _cancellation(self) -> NoReturn:
        await asyncio.get_running_loop().create_future()
        raise AssertionError("nobody sets this future")
