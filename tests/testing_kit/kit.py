"""What the kit's own tests build fleets from: a small registry, and plans for it."""

import asyncio
from typing import Any

from turnfleet import PlanSpec
from turnfleet_kernel.testing import ScriptedModel, call
from turnfleet_worker import Registry, Reject

PLAN = PlanSpec(name="support", model="support", tools=("refund", "look", "wait", "ask"))


class Desk:
    """A registry whose one model needs a key, and what its tools did. A call of `wait` ends after `open()`."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self._opened = False
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
        self.registry = Registry()
        self.registry.model("support", "openai:gpt-5-mini")

        @self.registry.tool(
            approval=lambda arguments: arguments["amount"] > 50,
            roles=("finance",),
            expires_in=3600,
            on_expiry=Reject("nobody decided"),
        )
        async def refund(amount: float) -> str:
            """Refund something."""
            self.done.append(f"refund {amount:g}")
            return "refunded"

        @self.registry.tool
        def look(what: str) -> str:
            """Look something up."""
            if what == "nothing":
                raise LookupError("there is nothing")
            return f"{what} seen"

        @self.registry.tool(idempotent=True)
        async def wait() -> str:
            """Wait for the gate."""
            self.done.append("wait")
            gate = asyncio.Event()
            self._waiting.append((asyncio.get_running_loop(), gate))
            try:
                if not self._opened:
                    await gate.wait()
            finally:
                self.done.append("left")
            return "waited"

    def open(self) -> None:
        """Let every `wait` end; from any thread."""
        self._opened = True
        for loop, gate in self._waiting:
            loop.call_soon_threadsafe(gate.set)


def script(*steps: Any) -> dict[str, ScriptedModel]:
    """Give a model that says these things, in the place of the one that needs a key."""
    return {"support": ScriptedModel(steps)}


def refund(amount: float, call_id: str = "c1") -> Any:
    """Give a turn that asks for a refund."""
    return call("refund", call_id, amount=amount)


WAITING = (call("wait", "w1"), "done")
