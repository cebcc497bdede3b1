"""turnfleet's pytest plugin: the fixture `local_fleet`. It loads nothing of turnfleet before a test asks for it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from turnfleet_worker.testing import LocalFleet

__all__ = ["local_fleet"]


@pytest.fixture
def local_fleet() -> "Iterator[Callable[..., LocalFleet]]":
    """Give a function that starts a local fleet and takes what `turnfleet_worker.testing.local_fleet` takes.

    All of a test's fleets end with the test. In a coroutine, `async with local_fleet(...)` has the fleet run on the
    test's own loop, with methods to await.
    """
    from turnfleet_worker import testing  # noqa: PLC0415 - a suite that does not use it must not pay for it

    with ExitStack() as stack:

        def start(registry: Any, **options: Any) -> "LocalFleet":
            return stack.enter_context(testing.local_fleet(registry, **options).held())

        yield start
