"""The planned fleet with leases short enough to watch, and drains as long as the test says."""

import os

from fleet.planned import NAME, URL, registry

from turnfleet_worker import WorkerSettings, create_app

app = create_app(
    registry,
    URL,
    name=NAME,
    settings=WorkerSettings(
        lease_seconds=2,
        heartbeat_seconds=0.4,
        sweep_seconds=0.4,
        reoffer_after_seconds=4,
        drain_seconds=float(os.environ.get("DRAIN_SECONDS", "20")),
    ),
)
