"""What a tool may know about the call it serves."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class ToolContext:
    """A parameter annotated `ToolContext` receives this; the model does not see it.

    `call_id` is unique in the run and the same when the call is made again after a crash: pass it on as the
    idempotency key. `emit` reports progress as JSON, from the loop or from a plain function's thread (EVT-3).
    """

    run_id: str
    call_id: str
    tool: str
    emit: Callable[[Any], None]
    _stop: threading.Event = field(default_factory=threading.Event, repr=False)

    @property
    def cancelled(self) -> bool:
        """Whether the run ended meanwhile: a plain function that works in steps can look and stop early."""
        return self._stop.is_set()
