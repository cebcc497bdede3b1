"""The part of a traceback that is worth reading, and that may be read, in logs and in Flower."""

from traceback import TracebackException
from types import TracebackType
from typing import Final

from turnfleet_worker.errors import ModelError

__all__ = ["traceback_text", "users_part"]

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


def traceback_text(error: BaseException, *, content: bool) -> str:
    """Return an error's traceback, with what caused it, without locals.

    Unless `content`: what a `ModelError` was made of is left out, for a provider's own error may quote the prompt.
    """
    shown = TracebackException.from_exception(error)
    if not content:
        _cut(error, shown)
    return "".join(shown.format()).rstrip("\n")


def _cut(error: BaseException | None, shown: TracebackException | None) -> None:
    while error is not None and shown is not None:
        if isinstance(error, ModelError):
            shown.__cause__ = shown.__context__ = None
            return
        if shown.__cause__ is not None:
            error, shown = error.__cause__, shown.__cause__
        else:
            error, shown = error.__context__, shown.__context__
