"""Where a run's events go: into its log, in order. The last one is kept for the script that ends the claim."""

from turnfleet_kernel.contracts.events import PAUSE_KINDS, TERMINAL_KINDS, KernelEvent
from turnfleet_kernel.contracts.json import event_to_json
from turnfleet_worker.writer import RunWriter

_LAST = TERMINAL_KINDS | PAUSE_KINDS


class RunSink:
    """The event sink of one invocation.

    `last` is the terminal or pause event. It is not written here: only the finish or pause script may say how a run
    ended, because it knows whether a cancel came first (DESIGN 5).
    """

    def __init__(self, writer: RunWriter, position: int) -> None:
        self._writer = writer
        self.position = position
        """The index of the next event."""
        self.last: KernelEvent | None = None

    async def deliver(self, event: KernelEvent) -> None:
        """Queue an event, and hold its maker back while too many wait (EVT-8)."""
        if event.kind in _LAST:
            self.last = event
            if event.kind in TERMINAL_KINDS:
                self._writer.expect_end()
            return
        self._writer.event(event_to_json(event))
        self.position = event.index + 1
        await self._writer.room()
