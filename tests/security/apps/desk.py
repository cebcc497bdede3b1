"""A worker's fleet whose place and keys the environment says: one model without a key, one tool that asks."""

import os

from turnfleet.wire import SigningKeys
from turnfleet_kernel.testing import ScriptedModel, call
from turnfleet_worker import Registry, WorkerSettings, create_app

registry = Registry()
registry.model("desk", ScriptedModel([call("refund", "c1", amount=80), "all done"]))


@registry.tool(approval=True, roles=("finance",))
async def refund(amount: int) -> str:
    """Refund."""
    return f"refunded {amount}"


app = create_app(
    registry,
    os.environ["TURNFLEET_REDIS_URL"],
    name=os.environ["TURNFLEET_NAME"],
    broker_url=os.environ.get("TURNFLEET_BROKER_URL"),
    key_prefix=os.environ.get("TURNFLEET_KEY_PREFIX", ""),
    signing=SigningKeys.from_environment(),
    settings=WorkerSettings(lease_seconds=30, heartbeat_seconds=0.5, sweep_seconds=0.2, reoffer_after_seconds=30),
)
