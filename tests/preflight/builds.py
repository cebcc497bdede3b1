"""Two builds of one service: what is deployed, and what is to be. Each difference breaks runs in a way of its own.

The prompt spells out what the model says (support/spelled.py). Every model round and every effect is a line in the file
that `MARKS` names.
"""

import asyncio
import os
from pathlib import Path
from typing import Annotated

from pydantic import Field
from support.spelled import Spelled

from turnfleet_kernel import Phase, PlanSpec, Stage, StageResult, current_run_identity
from turnfleet_worker import Edit, Registry, Reject

HELPER = PlanSpec(name="helper", model="spelled", tools=("pay",))
SCRIBE = PlanSpec(name="scribe", model="spelled", tools=("pay",), instructions="Write.")
ANSWER = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}


def mark(what: str) -> None:
    """Leave a line for the test."""
    identity = current_run_identity()
    with Path(os.environ["MARKS"]).open("a") as file:
        file.write(f"{what} {identity.run_id if identity else '?'}\n")


def same() -> Registry:
    """Give what both builds have."""
    registry = Registry()
    registry.model("spelled", Spelled(lambda _number: mark("model")))

    @registry.tool(approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        mark("pay")
        return f"paid {amount}"

    @registry.tool
    def peek() -> str:
        """Look."""
        mark("peek")
        return "seen"

    registry.delegate("helper", HELPER)
    return registry


def deployed() -> Registry:
    """Give the build that runs."""
    registry = same()
    registry.model("retired", Spelled(lambda _number: mark("model")))
    registry.delegate("scribe", SCRIBE)
    registry.delegate("clerk", HELPER)

    @registry.tool(approval=True)
    def mail(to: str) -> str:
        """Write a letter."""
        mark("mail")
        return to

    @registry.tool(approval=True)
    def refund(order_id: str) -> str:
        """Refund."""
        mark("refund")
        return order_id

    @registry.tool(approval=True)
    def fax(to: str) -> str:
        """Send a fax."""
        mark("fax")
        return to

    @registry.tool(approval=True, expires_in=86_400, on_expiry=Edit({"sku": "a", "count": 3}))
    def order(sku: str, count: int) -> str:
        """Order."""
        mark("order")
        return f"{count} of {sku}"

    @registry.tool
    def stamp(text: str) -> str:
        """Stamp."""
        mark("stamp")
        return text

    @registry.tool
    async def charge(amount: int) -> str:
        """Charge: it starts, and does not come back."""
        mark("charge")
        await asyncio.Event().wait()
        return str(amount)

    registry.stage("watch", lambda _settings: Stage("watch", Phase.PRE_TOOL, lambda _frame: None))
    registry.stage("guard", lambda _settings: Stage("guard", Phase.PRE_TOOL, lambda _frame: None))

    async def stay(_frame: object) -> None:
        mark("commit")
        await asyncio.Event().wait()

    registry.stage("commit", lambda _settings: Stage("commit", Phase.FINALIZE, stay))
    return registry


def coming() -> Registry:
    """Give the build that is to be rolled out."""
    registry = same()
    registry.delegate("scribe", SCRIBE.model_copy(update={"instructions": "Write well."}))

    @registry.tool(approval=True)
    def mail(to: str, subject: str = "") -> str:
        """Write a letter."""
        mark("mail")
        return f"{to}{subject}"

    @registry.tool(approval=True)
    def refund(order_id: str, reason: str) -> str:
        """Refund, for a reason."""
        mark("refund")
        return f"{order_id} {reason}"

    @registry.tool(approval=True, expires_in=86_400, on_expiry=Reject("nobody decided"))
    def order(sku: str, count: Annotated[int, Field(le=2)]) -> str:
        """Order, two at most."""
        mark("order")
        return f"{count} of {sku}"

    @registry.tool
    def stamp(text: str, ink: str) -> str:
        """Stamp, with ink."""
        mark("stamp")
        return f"{text} {ink}"

    @registry.tool
    def charge(amount: int) -> str:
        """Charge."""
        mark("charge")
        return str(amount)

    @registry.tool
    def newcomer() -> str:
        """Be there at last."""
        mark("newcomer")
        return "here"

    def refuse(_frame: object) -> StageResult:
        raise ValueError("no payments on Sundays")

    registry.stage("guard", lambda _settings: Stage("guard", Phase.PRE_TOOL, refuse))
    registry.stage("commit", lambda _settings: Stage("commit", Phase.FINALIZE, lambda _frame: mark("commit")))
    return registry


old = deployed()
new = coming()
