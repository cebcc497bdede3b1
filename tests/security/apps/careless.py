"""A fleet in which secrets are everywhere that content may be: prompts, arguments, results, failures."""

import os

from turnfleet.wire import SigningKeys
from turnfleet_kernel.testing import ScriptedModel, call
from turnfleet_worker import Registry, WorkerSettings, create_app

MARK = os.environ["CARELESS_MARK"]

registry = Registry()
registry.model(
    "careless",
    ScriptedModel(
        [
            call("look_up", "c1", token=f"{MARK}-argument"),
            call("pay", "c2", card=f"{MARK}-card"),
            call("ask", "c3", question=f"{MARK}-question?"),
            f"{MARK}-text",
        ]
    ),
)


@registry.tool
async def look_up(token: str) -> str:
    """Look something up."""
    raise RuntimeError(f"{token}: {MARK}-error")


@registry.tool(approval=True, roles=("finance",))
async def pay(card: str) -> str:
    """Pay."""
    return f"{card}: {MARK}-result"


app = create_app(
    registry,
    os.environ["TURNFLEET_REDIS_URL"],
    name=os.environ["TURNFLEET_NAME"],
    signing=SigningKeys.from_environment(),
    settings=WorkerSettings(lease_seconds=30, heartbeat_seconds=0.5, sweep_seconds=0.2, reoffer_after_seconds=30),
)
