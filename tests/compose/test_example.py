"""The example's rule in place of a model: what it reads in a prompt."""

import importlib.util
from types import ModuleType

import pytest
from compose.composition import COMPOSE


@pytest.fixture(scope="module")
def refunds() -> ModuleType:
    """Give the example's module, which is no package of this repository."""
    spec = importlib.util.spec_from_file_location("refunds", COMPOSE / "example" / "refunds.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("prompt", "asked"),
    [
        ("Please refund order 1001: 20 euros.", {"order_id": "1001", "amount": 20.0}),
        ("order A7, 12.50", {"order_id": "A7", "amount": 12.5}),
        ("Please refund order 1001: lots euros.", None),
        ("Please refund it.", None),
    ],
)
def test_a_refund_is_asked_for_only_when_order_and_amount_are_said(
    refunds: ModuleType, prompt: str, asked: dict[str, object] | None
) -> None:
    """An order's number is no amount; where something is missing, the customer is asked."""
    turn = refunds.next_turn([{"role": "user", "content": prompt}])
    assert [dict(request.arguments) for request in turn.tool_requests] == ([asked] if asked else [])
    assert turn.text.startswith("I look into it" if asked else "Which order")
