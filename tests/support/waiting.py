"""Waiting on a condition with a deadline: the tests' only way of letting other processes catch up."""

import time
from collections.abc import Callable
from typing import Literal, TypeVar

T = TypeVar("T")

GLANCE_SECONDS = 0.02
LIMIT_SECONDS = 60.0
"""What holds soon on a machine at rest holds by then on one that is busy with other things; a failure may take long."""


def eventually(
    predicate: Callable[[], T | Literal[False] | None], timeout: float = LIMIT_SECONDS, *, what: str = ""
) -> T:
    """Return the first true value of `predicate`; AssertionError, saying the last value, after `timeout` seconds."""
    limit = time.monotonic() + timeout
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() > limit:
            raise AssertionError(f"{what or 'the condition'} did not hold within {timeout:g} s; last value: {value!r}")
        time.sleep(GLANCE_SECONDS)


def always(predicate: Callable[[], object], seconds: float, *, what: str = "") -> None:
    """Assert that `predicate` holds now and for `seconds` on: for what must not happen, however long one waits."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        value = predicate()
        assert value, f"{what or 'the condition'} stopped holding: {value!r}"
        time.sleep(GLANCE_SECONDS)
