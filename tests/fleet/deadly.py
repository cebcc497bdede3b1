"""The planned fleet with a tool that kills its process each time, and leases short enough to watch."""

import os

from fleet.planned import NAME, URL, registry

from turnfleet_worker import ToolContext, WorkerSettings, create_app


@registry.tool(idempotent=True)
async def die(context: ToolContext) -> str:
    """Take the whole process along, as a fault in native code would."""
    os._exit(1)


app = create_app(
    registry,
    URL,
    name=NAME,
    settings=WorkerSettings(
        lease_seconds=2, heartbeat_seconds=0.4, sweep_seconds=0.4, reoffer_after_seconds=1, drain_seconds=3
    ),
)
