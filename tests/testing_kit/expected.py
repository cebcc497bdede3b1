"""What there is to see of each scenario, wherever it is played."""

from collections.abc import Callable
from typing import Any

from testing_kit import scenarios
from testing_kit.scenarios import Stage

SAYS = ["text_delta", "usage", "done"]
CALLS = ["tool_call", "tool_result"]
APPROVAL = ["usage", "approval", "resumed"]


def talked(text: str, *tools: Any, kinds: list[str], requests: int = 2, attempts: int = 2) -> dict[str, Any]:
    """Spell out a run that completed; a tool is (name, value) or (name, None, error)."""
    return {
        "state": "completed",
        "kinds": kinds,
        "attempts": attempts,
        "text": text,
        "tools": [(*tool, None)[:3] for tool in tools],
        "requests": requests,
        "stop": "stop",
    }


def over(state: str, *kinds: str, attempts: int = 1, error: str | None = None, cancelled: str | None = None) -> Any:
    """Spell out a run that ended otherwise."""
    return {"state": state, "kinds": list(kinds), "attempts": attempts, "error": error, "cancelled": cancelled}


SMALL = talked("That is all.", ("refund", "refunded 20"), kinds=["usage", *CALLS, *SAYS], attempts=1)
CHANGED = "changed my mind"

EXPECTED: dict[Callable[[Stage], Any], Any] = {
    scenarios.complete: talked("Good day to you.", kinds=SAYS, requests=1, attempts=1),
    scenarios.call_a_tool: (SMALL, ["refund 1002 20"]),
    scenarios.fail_and_retry: (
        over("failed", "error", error="RuntimeError: the model is down"),
        talked("It is back.", kinds=["error", "resumed", *SAYS], requests=1),
    ),
    scenarios.approve: (
        ("approval", "refund", {"order_id": "1001", "amount": 80.0}, ("finance",)),
        talked("That is all.", ("refund", "refunded 80"), kinds=[*APPROVAL, *CALLS, *SAYS]),
        ["alice"],
        ["refund 1001 80"],
    ),
    scenarios.reject: (
        talked("That is all.", ("refund", None, "rejected by a person: too much"), kinds=[*APPROVAL, *CALLS, *SAYS]),
        [],
    ),
    scenarios.edit: (
        talked("That is all.", ("refund", "refunded 60"), kinds=[*APPROVAL, *CALLS, *SAYS]),
        ["refund 1001 60"],
    ),
    scenarios.question: talked(
        "Thanks.", ("ask", "red"), kinds=["usage", "tool_call", "question", "resumed", "tool_result", *SAYS]
    ),
    scenarios.expiry_default: talked(
        "So be it.", ("hasty", None, "rejected by a person: nobody decided"), kinds=[*APPROVAL, *CALLS, *SAYS]
    ),
    scenarios.expiry_of_the_run: over("expired", "usage", "approval", "expired"),
    scenarios.cancel: (
        [True, True, True],
        [
            over("cancelled", "usage", "approval", "cancelled", cancelled=CHANGED),
            over("cancelled", "usage", "tool_call", "cancelled", cancelled=CHANGED),
            over("cancelled", "cancelled", attempts=0, cancelled=CHANGED),
        ],
        False,
    ),
    scenarios.delegated: talked(
        "The helper spoke.",
        ("helper", "Good day to you."),
        kinds=["usage", "tool_call", *["child"] * 6, "tool_result", *SAYS],
        requests=3,
        attempts=1,
    ),
    scenarios.thread: ("queued", ["completed", "completed"], True),
    scenarios.kill_and_recover: (
        talked(
            "Found.",
            ("refund", "refunded 10"),
            ("lookup", "stock found"),
            ("broken", None, "ValueError: out of paper"),
            ("refund", "refunded 5"),
            kinds=[
                *["usage", *CALLS],
                *["usage", "tool_call", "resumed", "tool_result"],
                *["usage", "tool_call", "tool_call", "tool_result", "tool_result"],
                *SAYS,
            ],
            requests=4,
        ),
        ["refund 1003 10", "lookup stock l1", "lookup stock l1", "refund 1004 5"],
    ),
    scenarios.in_doubt: (
        "in_doubt:s1",
        talked(
            "On its way.",
            ("ship", "shipped"),
            kinds=["usage", "tool_call", "resumed", "in_doubt", "resumed", "tool_result", *SAYS],
            attempts=3,
        ),
        ["ship", "ship"],
    ),
    scenarios.park: ({"tool": ("levitate",)}, "cancelled"),
    scenarios.later: (["queued", "queued"], "completed", over("expired", "expired", attempts=0)),
    scenarios.twice: (["completed", "completed"], ["refund 1002 20"]),
}
