"""A shop whose run waits for people: what kernel tests pause and go on with."""

from typing import Any

from turnfleet_kernel import (
    Approve,
    Decision,
    Interrupt,
    InvocationPaused,
    ModelTurn,
    Stage,
    ToolRequest,
    UsageDelta,
    approval_stage,
)
from turnfleet_kernel.testing import ScriptedModel, ToolBox, make_plan

PAY = {
    "type": "object",
    "properties": {"amount": {"type": "number"}},
    "required": ["amount"],
    "additionalProperties": False,
}

QUESTION = {"question": "Which one?", "schema": {"type": "string", "enum": ["a", "b"]}}


class Shop:
    """A plan of two rounds: pay (needs approval), ask (a question), look (free); and what was really done."""

    def __init__(self, *, also: tuple[Stage, ...] = (), **limits: Any) -> None:
        self.done: list[Any] = []
        turn = ModelTurn(
            "Let me see.",
            UsageDelta(10, 5, 1),
            "tool_calls",
            (
                ToolRequest("p1", "pay", {"amount": 1}),
                ToolRequest("q1", "ask", {}),
                ToolRequest("l1", "look", {}),
                ToolRequest("p2", "pay", {"amount": 2}),
            ),
        )
        self.model = ScriptedModel([turn, ModelTurn(" All done.", UsageDelta(20, 5, 1), "stop")])
        functions: dict[str, Any] = {"pay": self.pay, "ask": self.ask, "look": self.look}
        stages = [approval_stage(lambda request: request.name == "pay"), *also]
        tools = ToolBox(functions, schemas={"pay": PAY})
        self.plan = make_plan(self.model, tools=tools, stages=stages, **limits)

    def pay(self, amount: float) -> str:
        """Pay."""
        self.done.append(("pay", amount))
        return f"paid {amount}"

    def ask(self) -> None:
        """Put a question."""
        self.done.append("asked")
        raise InvocationPaused(Interrupt("which", "question", QUESTION))

    def look(self) -> str:
        """Look."""
        self.done.append("looked")
        return "seen"


APPROVED: dict[str, Decision] = {"approval:p1": Approve(), "approval:p2": Approve()}
