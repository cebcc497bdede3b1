"""The error tree is drawn in its docstring; the drawing is true."""

import re

import turnfleet.errors as module
from turnfleet.errors import InvalidDecision, InvalidId, PlanRejected, RunEnded, TurnfleetError
from turnfleet_kernel.errors import InvalidDecision as KernelInvalidDecision


def test_the_drawing_is_the_tree() -> None:
    """Every error stands under its base, and none is missing."""
    drawn: dict[str, str] = {}
    line: list[tuple[int, str]] = []
    for row in (module.__doc__ or "").splitlines():
        found = re.match(r"^(    [│├└─ ]*)([A-Z]\w+)", row)
        if found is None:
            continue
        depth, name = len(found[1]), found[2]
        line = [(at, above) for at, above in line if at < depth]
        if line:
            drawn[name] = line[-1][1]
        line.append((depth, name))
    classes = [getattr(module, name) for name in module.__all__ if name != "TurnfleetError"]
    assert {each.__name__: each.__bases__[0].__name__ for each in classes} == drawn


def test_errors_of_both_wings_can_be_caught_alike() -> None:
    """Whoever knows the kernel's names, or Python's, catches ours with them."""
    assert issubclass(InvalidDecision, KernelInvalidDecision)
    assert issubclass(InvalidId, ValueError)
    assert issubclass(RunEnded, TurnfleetError)


def test_a_rejected_plan_lists_all_that_is_unknown() -> None:
    """By kind, with what there is instead."""
    error = PlanRejected({"tool": ("refund", "ship"), "model": ("gpt",)}, {"tool": ("lookup",)})
    text = "no live worker knows what the plan names: "
    text += "tool 'refund', 'ship' (they have: lookup); model 'gpt' (they have: none)"
    assert text == str(error)
    assert error.unknown == {"tool": ("refund", "ship"), "model": ("gpt",)}
