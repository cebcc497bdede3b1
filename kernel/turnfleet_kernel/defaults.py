"""The system's clock and ids, and the tools of a plan that has none. The one module that may ask the machine."""

import os
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from turnfleet_kernel.contracts.values import ToolDescription, ToolOutcome, ToolRequest

__all__ = ["NoTools", "SystemClock", "SystemIds"]


class SystemClock:
    """The machine's clock. It is asked several times an event: both answers come without a step through Python."""

    now = staticmethod(partial(datetime.now, UTC))  # noqa: TID251 - this is the clock port
    monotonic = staticmethod(time.monotonic)


class SystemIds:
    """Random ids of 32 hex digits."""

    def new(self) -> str:
        """Give a fresh id."""
        return os.urandom(16).hex()


class NoTools:
    """The manifest of a plan that names no tool."""

    async def call(self, request: ToolRequest) -> ToolOutcome:
        """Refuse whatever is asked for, in words for the model."""
        error = f"there is no tool {request.name!r}; this agent has no tools"
        return ToolOutcome(request.call_id or "", request.name, error=error)

    def schema(self, name: str) -> Mapping[str, Any] | None:  # noqa: ARG002 - the port's signature
        """Check nothing."""
        return None

    def names(self) -> tuple[str, ...]:
        """List nothing."""
        return ()

    def describe(self, name: str) -> ToolDescription:
        """Describe nothing."""
        raise KeyError(name)
