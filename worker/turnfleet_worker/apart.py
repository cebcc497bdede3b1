"""A run that may be what kills workers is tried apart from all others (DESIGN 1, "Attempts").

Everything here happens on the event loop. A suspect is not claimed before it is alone: whoever waits has lost nothing
when the process dies of something else.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Apart:
    """Who is at work in this process, and whether somebody must be alone.

    `patience_seconds`: how long a suspect waits for its neighbours to reach a point where they can be handed over.
    One that is inside a long call is not cut off for it: the suspect then goes elsewhere, and is waited for twice as
    long when it comes back.
    """

    def __init__(self, patience_seconds: float) -> None:
        self.clearing = False
        """Whether neighbours are to hand over at their next journal point."""
        self._patience = patience_seconds
        self._present = 0
        self._suspect: str | None = None
        self._tries: Counter[str] = Counter()
        self._closing = False
        self._free = asyncio.Event()
        self._free.set()
        self._empty = asyncio.Event()
        self._empty.set()

    @asynccontextmanager
    async def beside(self) -> AsyncIterator[None]:
        """Be at work as one of many, as soon as no suspect is tried here; after `close`, at once."""
        await self._no_suspect()
        self._arrive()
        try:
            yield
        finally:
            self._depart()

    @asynccontextmanager
    async def alone(self, run_id: str) -> AsyncIterator[bool]:
        """Be the only one at work until `acquit`; gives False where others would not have gone in time."""
        await self._no_suspect()
        if self._closing:
            yield False
            return
        self._suspect = run_id
        self._free.clear()
        try:
            yield await self._cleared(run_id)
        finally:
            if self._suspect == run_id:
                self._let_in()
            else:
                self._depart()

    def acquit(self, run_id: str) -> None:
        """Let others in again: the suspect's journal has moved. It is at work as one of many from here on."""
        if self._suspect == run_id:
            self._arrive()
            self._let_in()

    def close(self) -> None:
        """Let go of everybody who waits: the process is to end."""
        self._closing = True
        self._free.set()
        self._empty.set()

    async def _no_suspect(self) -> None:
        while self._suspect is not None and not self._closing:
            await self._free.wait()

    async def _cleared(self, run_id: str) -> bool:
        self.clearing = True
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._empty.wait(), self._patience * 2 ** self._tries[run_id])
        finally:
            self.clearing = False
        if self._closing:
            return False
        if self._present:
            self._tries[run_id] += 1
            return False
        del self._tries[run_id]
        return True

    def _let_in(self) -> None:
        self._suspect = None
        self._free.set()

    def _arrive(self) -> None:
        self._present += 1
        self._empty.clear()

    def _depart(self) -> None:
        self._present -= 1
        if not self._present:
            self._empty.set()
