"""A worker of one of the builds."""

import os

from preflight import builds

from turnfleet_worker import WorkerSettings, create_app

app = create_app(
    getattr(builds, os.environ["BUILD"]),
    os.environ["TURNFLEET_REDIS_URL"],
    name=os.environ["TURNFLEET_NAME"],
    settings=WorkerSettings(
        lease_seconds=4, heartbeat_seconds=0.4, sweep_seconds=0.4, reoffer_after_seconds=1, drain_seconds=1
    ),
)
