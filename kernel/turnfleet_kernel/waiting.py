"""What a run waits for, each thing under an id of its own (HK-5)."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import replace

from turnfleet_kernel.contracts.interrupts import Interrupt
from turnfleet_kernel.contracts.values import ToolRequest

__all__ = ["WaitingList"]


class WaitingList:
    """The open interrupts of a run, and every id that its interrupts ever had."""

    __slots__ = ("_open", "_used")

    def __init__(self, still_open: Iterable[Interrupt] = (), used_ids: Iterable[str] = ()) -> None:
        """Go on with what an earlier invocation left open."""
        self._open = {interrupt.id: interrupt for interrupt in still_open}
        self._used = dict.fromkeys(used_ids)

    @property
    def used_ids(self) -> tuple[str, ...]:
        """Every id used so far, in the order first used."""
        return tuple(self._used)

    def settle(
        self, raised: Sequence[Interrupt], requests: Sequence[ToolRequest], known: Container[str | None]
    ) -> tuple[Interrupt, ...]:
        """Give all that the run waits for now, in request order, every id unique in the run.

        What was open before and was not reached this time (its call was not started again, and nothing is known of
        it) stays open.
        """
        settled = [self._claim(interrupt) for interrupt in raised]
        settled.extend(left for left in self._open.values() if left.call_id not in known)
        order = {request.call_id: place for place, request in enumerate(requests)}
        settled.sort(key=lambda interrupt: order.get(interrupt.call_id, -1))
        return tuple(settled)

    def _claim(self, interrupt: Interrupt) -> Interrupt:
        before = self._open.pop(interrupt.id, None)
        if before is not None and before.call_id == interrupt.call_id:
            return before
        unique, number = interrupt.id, 1
        while unique in self._used:
            number += 1
            unique = f"{interrupt.id}#{number}"
        self._used[unique] = None
        return interrupt if unique == interrupt.id else replace(interrupt, id=unique)
