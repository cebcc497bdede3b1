"""One shop, hosted by the kit and by a real worker: what its agents do is the same every time.

Effects and what has to outlive a killed worker are files in the folder `SHOP_FOLDER`.
"""

import asyncio
import os
from pathlib import Path

from turnfleet import PlanSpec
from turnfleet_kernel import ToolRequest
from turnfleet_kernel.testing import ScriptedModel, call, calls
from turnfleet_worker import Registry, Reject, ToolContext, WorkerSettings, create_app

registry = Registry()


def leave(text: str) -> None:
    """Note an effect."""
    with (Path(os.environ["SHOP_FOLDER"]) / "effects").open("a") as effects:
        effects.write(f"{text}\n")


@registry.tool(approval=lambda arguments: arguments["amount"] > 50, roles=("finance",))
async def refund(order_id: str, amount: float) -> str:
    """Refund an order; above 50, a person of finance decides."""
    leave(f"refund {order_id} {amount:g}")
    return f"refunded {amount:g}"


@registry.tool(approval=True, expires_in=1.0, on_expiry=Reject("nobody decided"))
async def hasty() -> str:
    """Wait only a moment for a person."""
    return "done"


@registry.tool(approval=True, expires_in=1.0)
async def fleeting() -> str:
    """Wait only a moment for a person; then the run is over."""
    return "done"


@registry.tool(idempotent=True)
async def lookup(context: ToolContext, key: str) -> str:
    """Look something up; the first worker that tries gets stuck."""
    leave(f"lookup {key} {context.call_id}")
    await _stuck_once(context.run_id)
    return f"{key} found"


@registry.tool
async def ship(context: ToolContext) -> str:
    """Ship; the first worker that tries gets stuck, and nobody knows what came of it."""
    leave("ship")
    await _stuck_once(context.run_id)
    return "shipped"


@registry.tool
def broken() -> str:
    """Fail always; the model is told."""
    raise ValueError("out of paper")


async def _stuck_once(run_id: str) -> None:
    stuck = Path(os.environ["SHOP_FOLDER"]) / f"stuck-{run_id}"
    if not stuck.exists():
        stuck.touch()
        await asyncio.sleep(3600)


registry.model("plain", ScriptedModel(["Good day to you."]))
registry.model("failing", ScriptedModel([RuntimeError("the model is down"), "It is back."]))
registry.model("refunder", ScriptedModel([call("refund", "c1", order_id="1001", amount=80.0), "That is all."]))
registry.model("small", ScriptedModel([call("refund", "c1", order_id="1002", amount=20.0), "That is all."]))
registry.model(
    "asker",
    ScriptedModel([call("ask", "q1", question="Which colour?", schema={"enum": ["red", "blue"]}), "Thanks."]),
)
registry.model("hasty", ScriptedModel([call("hasty", "h1"), "So be it."]))
registry.model("fleeting", ScriptedModel([call("fleeting", "f1"), "never said"]))
registry.model(
    "finder",
    ScriptedModel(
        [
            call("refund", "c1", order_id="1003", amount=10.0),
            call("lookup", "l1", key="stock"),
            calls(ToolRequest("b1", "broken", {}), ToolRequest("c2", "refund", {"order_id": "1004", "amount": 5.0})),
            "Found.",
        ]
    ),
)
registry.model("shipper", ScriptedModel([call("ship", "s1"), "On its way."]))
registry.model("boss", ScriptedModel([call("helper", "d1", prompt="say something"), "The helper spoke."]))
registry.delegate("helper", PlanSpec(name="helper", model="plain"))


def plan(model: str, *tools: str, delegates: tuple[str, ...] = ()) -> PlanSpec:
    """Give a plan of this shop."""
    return PlanSpec(name=model, model=model, tools=tools, delegates=delegates)


def app() -> object:
    """Make the app of a real worker."""
    settings = WorkerSettings(
        lease_seconds=3, heartbeat_seconds=0.4, sweep_seconds=0.3, reoffer_after_seconds=2, drain_seconds=5
    )
    return create_app(registry, os.environ["TURNFLEET_REDIS_URL"], name=os.environ["TURNFLEET_NAME"], settings=settings)
