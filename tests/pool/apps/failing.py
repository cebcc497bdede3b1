"""A fleet app whose host cannot start; FAILS says how."""

import os

from celery import Celery
from pool.apps.recording import FLEET, RecordingHost

from turnfleet_kernel.errors import TurnfleetError
from turnfleet_worker.celery_app import build
from turnfleet_worker.settings import WorkerSettings


class FailingHost(RecordingHost):
    """Refuses to start."""

    async def start(self) -> None:
        """Raise."""
        if os.environ["FAILS"] == "ours":
            raise TurnfleetError("maxmemory-policy is allkeys-lru: set it to noeviction")
        raise OSError("no such store")


def make_host(_: Celery) -> FailingHost:
    """Make the host of this process."""
    return FailingHost()


app = build(make_host, fleet=FLEET, broker_url=os.environ["BROKER_URL"], settings=WorkerSettings())
