"""Waiting through an outage: who waits for a run goes on waiting while the store is away (docs/guarantees.md)."""

import logging
import time
from collections.abc import Generator
from typing import Any, Final, TypeVar

from turnfleet.client.setup import Setup
from turnfleet.client.steps import Execute, Listen
from turnfleet.errors import FleetUnavailable
from turnfleet.store import Command
from turnfleet.store.calls import may_pass

T = TypeVar("T")

RETRY_SECONDS: Final = 1.0
"""How long to wait before the store is asked again; less when the subscription is there again before."""

_log = logging.getLogger(__name__)


def ask(setup: Setup, command: Command[T], *, until: float | None) -> Generator[Execute[T] | Listen, Any, T]:
    """Run a command; when the store is away, again and again until it answers.

    `until` (monotonic seconds) is when the caller stops waiting; None: `setup.reconnect_timeout` seconds from now.
    Then, and at once for what no waiting mends (a login or a certificate that was refused), raises `FleetUnavailable`.
    """
    began = time.monotonic()
    limit = began + setup.reconnect_timeout if until is None else until
    waiting = False
    while True:
        try:
            answer: T = yield Execute(command)
        except FleetUnavailable as error:
            now = time.monotonic()
            if now >= limit or not may_pass(error):
                if not waiting:
                    raise
                text = f"{error} (asked again for {now - began:.0f} s)"
                raise FleetUnavailable(text, run_id=error.run_id) from error.__cause__
            if not waiting:
                _log.warning("%s; asking again for %.0f s at most", error, limit - now)
            waiting = True
        else:
            return answer
        # The subscription is made anew meanwhile, and to hear of that ends the pause.
        yield Listen(min(RETRY_SECONDS, setup.poll_interval, limit - now))
