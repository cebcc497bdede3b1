"""The planned fleet with drains as long as the test says."""

import os

from fleet.planned import LEASE, NAME, URL, registry

from turnfleet_worker import WorkerSettings, create_app

app = create_app(
    registry,
    URL,
    name=NAME,
    settings=WorkerSettings(
        lease_seconds=LEASE,
        heartbeat_seconds=0.4,
        sweep_seconds=0.4,
        reoffer_after_seconds=4,
        drain_seconds=float(os.environ.get("DRAIN_SECONDS", "20")),
    ),
)
