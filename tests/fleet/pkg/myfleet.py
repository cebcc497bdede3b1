"""A fleet whose app is built when a package is imported. A run whose id begins with `held` waits for the test."""

import os

import redis.asyncio

from turnfleet import Fleet, PlanSpec
from turnfleet_kernel.testing import ScriptedModel, call
from turnfleet_worker import Registry, ToolContext, WorkerSettings, create_app

URL = os.environ["TURNFLEET_REDIS_URL"]
NAME = os.environ["TURNFLEET_NAME"]
PLAN = PlanSpec(name="variant", model="caller", tools=("gate", "ask"))
registry = Registry()
registry.model("caller", ScriptedModel([call("gate"), "through"]))


@registry.tool(idempotent=True, description="Wait at a gate.")
async def gate(context: ToolContext) -> str:
    """Wait at a gate (python -OO strips this)."""
    if context.run_id.startswith("held"):
        async with redis.asyncio.Redis.from_url(URL, socket_timeout=None) as client:
            await client.blmove(f"gate:{NAME}", f"gate:{NAME}", 60, "LEFT", "LEFT")
    return "open"


settings = WorkerSettings(lease_seconds=3, heartbeat_seconds=0.5, sweep_seconds=0.5, reoffer_after_seconds=1)
app = create_app(registry, URL, name=NAME, settings=settings)
app.conf.update(
    timezone=os.environ.get("VARIANT_TIMEZONE", "UTC"),
    enable_utc="VARIANT_TIMEZONE" not in os.environ,
    beat_schedule={"tick": {"task": "variant.tick", "schedule": 0.5}},
)


@app.task(name="variant.tick")
def tick() -> None:
    """Enqueue the run that the schedule asks for; asked again, it is the same run."""
    with Fleet(URL, name=NAME) as fleet:
        fleet.enqueue(PLAN, "tick", run_id="tick")
