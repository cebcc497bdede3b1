"""Waiting for a run's events, and saying why none come: a run that nobody can work on emits nothing."""

import logging
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from turnfleet.errors import FleetUnavailable
from turnfleet_kernel.contracts.events import KernelEvent

if TYPE_CHECKING:
    from turnfleet import Fleet, Run

GLANCE_SECONDS = 2.0
"""After so long without an event it is looked up whether any can come."""

OUTAGE_SECONDS = 60.0
"""How long a Redis that went away is waited for, without a time limit of the user's."""

Until = Literal["terminal", "pause"]

_NOWHERE = logging.NullHandler()


def events(
    fleet: "Fleet", run: "Run[Any]", *, after: int, until: Until, timeout: float | None, tell: Callable[[str], None]
) -> Iterator[KernelEvent]:
    """Yield the run's events; `tell` gets the reason, once, while nobody can work on it, or Redis is away.

    TimeoutError after `timeout` seconds without an event; None waits on. `FleetUnavailable` when Redis is away at the
    start, at the end of `timeout`, or, without one, for `OUTAGE_SECONDS`.
    """
    logging.getLogger("turnfleet.client.outage").addHandler(_NOWHERE)  # it is told here
    run.status()  # who names the wrong server is not to wait for it
    told, since = "", time.monotonic()
    answered = since
    while True:
        left = GLANCE_SECONDS if timeout is None else min(GLANCE_SECONDS, max(since + timeout - time.monotonic(), 0.0))
        try:
            for event in run.events(after=after, until=until, timeout=left):
                yield event
                after, told, since = event.index, "", time.monotonic()
                answered = since
        except TimeoutError:
            answered = time.monotonic()
            if timeout is not None and answered >= since + timeout:
                raise
            reason = why_none_come(fleet, run)
            if reason not in {"", told}:
                tell(reason)
            told = reason
        except FleetUnavailable as error:
            if time.monotonic() >= (answered + OUTAGE_SECONDS if timeout is None else since + timeout):
                raise
            if told != "away":
                tell(f"{error}; still waiting")
            told = "away"
        else:
            return


def why_none_come(fleet: "Fleet", run: "Run[Any]") -> str:
    """Say why the run stands still; "" when it does not, or waits for people, or that cannot be looked up now."""
    try:
        status = run.status()
        workers = fleet.workers() if status.state == "queued" and status.eta is None else ()
    except FleetUnavailable:
        return ""
    if status.state == "parked":
        return f"parked: {status.parked_because or 'no live worker has all it needs'}; it goes on when a worker fits"
    if status.state != "queued" or status.eta is not None:
        return ""
    if not workers:
        return "queued, and no worker of this fleet is alive: start one; turnfleet doctor says more"
    if any("queues" not in each or status.queue in each["queues"] for each in workers):
        return ""
    return f"queued on {status.queue!r}, which no live worker reads: start one with -Q {status.queue}"
