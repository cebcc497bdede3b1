"""Is the worker of this container well? Exit code 0, or 1 with the reason. Asks no other worker.

Two threads make a worker, and each can be stuck alone: the consumer's, which answers Celery's ping, and the event
loop's, which keeps the worker announced in the run store. Imports neither the fleet's module nor a model's SDK, since
this runs every few seconds. Reads TURNFLEET_REDIS_URL, TURNFLEET_NAME,
TURNFLEET_KEY_PREFIX, and TURNFLEET_BROKER_URL if the broker is another.
"""

import os
import socket
import sys

from celery import Celery
from kombu.exceptions import OperationalError

from turnfleet import Fleet
from turnfleet.errors import FleetUnavailable
from turnfleet.wire.broker import celery_settings

ANSWER_SECONDS = 5.0


def complaint(url: str, broker_url: str, fleet: str, key_prefix: str = "") -> str | None:
    """Return what is wrong with this host's worker, or None."""
    host = socket.gethostname()
    node = f"celery@{host}"
    app = Celery(set_as_current=False)
    app.conf.update(celery_settings(fleet, broker_url, key_prefix))
    try:
        if not app.control.ping(destination=[node], timeout=ANSWER_SECONDS):
            return f"{node} of fleet {fleet!r} did not answer within {ANSWER_SECONDS:g} s"
        with Fleet(url, name=fleet, broker_url=broker_url, timeout=ANSWER_SECONDS, key_prefix=key_prefix) as client:
            announced = [worker for worker in client.workers() if worker["worker"].startswith(f"{host}:")]
    except (OperationalError, FleetUnavailable, OSError) as error:
        return f"the broker or the run store is away ({type(error).__name__})"
    if not announced:
        return f"{node} answers, but its event loop no longer announces it: does a tool block the loop?"
    return None


def main() -> int:
    """Print the complaint, if there is one."""
    url = os.environ["TURNFLEET_REDIS_URL"]
    wrong = complaint(
        url,
        os.environ.get("TURNFLEET_BROKER_URL") or url,
        os.environ.get("TURNFLEET_NAME", "default"),
        os.environ.get("TURNFLEET_KEY_PREFIX", ""),
    )
    print(wrong or "healthy")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
