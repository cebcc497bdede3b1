"""The part of a traceback that is worth reading: from the first line of code that is not turnfleet's own."""

from types import TracebackType
from typing import Final

__all__ = ["users_part"]

# What stands between a message and a user's model or tool, and says nothing of what went wrong in it.
_BETWEEN: Final = frozenset({"turnfleet_worker", "turnfleet_kernel", "asyncio", "contextlib"})


def users_part(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the frames that lead to the user's code; all of it where it never got there."""
    part = trace
    while part is not None:
        if str(part.tb_frame.f_globals.get("__name__", "")).partition(".")[0] not in _BETWEEN:
            return part
        part = part.tb_next
    return trace
