"""Is the worker of this host well? `python -m turnfleet_worker.health [NODE]`: exit code 0, or 1, and one line why.

Two threads make a worker, and each can be stuck alone: the consumer's, which answers Celery's ping, and the event
loop's, which keeps the worker announced in the run store. Asks no other worker, and imports neither the fleet's module
nor a model's SDK, since an orchestrator runs it every few seconds.

NODE is what `celery worker -n` was given, `celery@<host>` if nothing. Reads TURNFLEET_REDIS_URL, TURNFLEET_NAME,
TURNFLEET_KEY_PREFIX, and TURNFLEET_BROKER_URL if the broker is another.
"""

import os
import socket
import sys

from celery import Celery
from kombu.exceptions import OperationalError

from turnfleet.errors import InvalidAddress, InvalidId
from turnfleet.store import Keys, commands
from turnfleet.store.executor import SyncExecutor
from turnfleet.wire.broker import celery_settings
from turnfleet_kernel.errors import TurnfleetError

ANSWER_SECONDS = 5.0


def complaint(url: str, broker_url: str, keys: Keys, node: str | None = None) -> str | None:
    """Return what is wrong with this host's worker, or None. Each wait is at most `ANSWER_SECONDS`."""
    host = socket.gethostname()
    node = (node or "celery@%h").replace("%h", host)
    try:
        app = Celery(set_as_current=False)
        app.conf.update(celery_settings(keys.fleet, broker_url, keys.key_prefix))
        if not app.control.ping(destination=[node], timeout=ANSWER_SECONDS):
            return f"{node} of fleet {keys.fleet!r} did not answer within {ANSWER_SECONDS:g} s"
        executor = SyncExecutor(url, timeout=ANSWER_SECONDS)
        announced = executor.execute(commands.workers(keys))
        executor.close()
    except (InvalidAddress, InvalidId) as error:
        return str(error)
    except (OperationalError, TurnfleetError, OSError) as error:
        return f"the broker or the run store is away ({type(error).__name__})"
    if not any(each["worker"].startswith(f"{host}:") and each.get("node") == node for each in announced):
        return f"{node} answers, but its event loop no longer announces it: does a tool block the loop?"
    return None


def main(arguments: list[str]) -> int:
    """Print what is wrong, or that all is well; return the exit code."""
    if arguments[:1] in (["-h"], ["--help"]):
        sys.stdout.write(__doc__ or "")
        return 0
    url = os.environ.get("TURNFLEET_REDIS_URL")
    if url is None:
        sys.stdout.write("TURNFLEET_REDIS_URL is not set: whose health is it to be?\n")
        return 1
    keys = Keys(os.environ.get("TURNFLEET_NAME", "default"), key_prefix=os.environ.get("TURNFLEET_KEY_PREFIX", ""))
    wrong = complaint(url, os.environ.get("TURNFLEET_BROKER_URL") or url, keys, *arguments[:1])
    sys.stdout.write(f"{wrong or 'healthy'}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
