"""Where in the user's program something was registered, for errors that must name two places."""

import inspect
import sys
import traceback
from collections.abc import Callable
from typing import Any

__all__ = ["caller", "place_of", "place_of_error"]


def caller() -> str:
    """Name the line outside this package that is being executed."""
    frame = sys._getframe(1)  # noqa: SLF001 - inspect.stack() reads every source file on the way
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(__package__ + "."):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def place_of(function: Callable[..., Any]) -> str:
    """Name the line where a function is defined; where it has none, the line that registers it."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else caller()


def place_of_error(error: BaseException) -> str:
    """Name the line that raised."""
    raised = traceback.extract_tb(error.__traceback__)[-1]
    return f"{raised.filename}:{raised.lineno}"
