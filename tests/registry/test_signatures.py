"""A function's signature and docstring are the tool's schema; a model's arguments arrive in the function's types."""

import enum
import functools
import os
import subprocess
import sys
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from turnfleet_worker.errors import ArgumentsError, RegistrationError
from turnfleet_worker.signatures import read_signature
from turnfleet_worker.toolcontext import ToolContext


@dataclass
class Line:
    """One line of an order."""

    item: str
    count: int = 1


class Address(BaseModel):
    """Where it goes."""

    street: str


class Speed(enum.Enum):
    """How fast."""

    SLOW = "slow"
    FAST = "fast"


def refund(order_id: str, amount: float = 10.0) -> str:
    """Refund an order.

    Args:
        order_id: The order's number,
            prefix: included.
        amount (float): In euros.

    Returns:
        The receipt.
    """
    return f"{order_id}: {amount}"


def test_schema_and_description_come_from_signature_and_docstring() -> None:
    """What the model is told is what the author wrote, without the parts that are for people."""
    signature = read_signature(refund)
    assert signature.name == "refund"
    assert signature.description == "Refund an order."
    assert signature.schema == {
        "type": "object",
        "properties": {
            "order_id": {
                "type": "string",
                "description": "The order's number, prefix: included.",
            },
            "amount": {"type": "number", "default": 10.0, "description": "In euros."},
        },
        "required": ["order_id"],
        "additionalProperties": False,
    }


def test_a_sphinx_docstring_describes_parameters_too() -> None:
    """Field lists are read as well."""

    def close(case: str) -> None:
        """Close a case.

        :param case: Which one,
            by number.
        :returns: nothing
        """

    signature = read_signature(close)
    assert signature.description == "Close a case."
    assert signature.schema["properties"]["case"]["description"] == "Which one, by number."


def test_a_description_in_the_annotation_wins_over_the_docstring() -> None:
    """`Field(description=…)` is the more deliberate of the two."""

    def close(case: Annotated[str, Field(description="By number.")]) -> None:
        """Close a case.

        Args:
            case: Something else.
        """

    assert read_signature(close).schema["properties"]["case"]["description"] == "By number."


def test_arguments_arrive_in_the_functions_own_types() -> None:
    """Dataclasses, models, enums, dates and decimals are objects when the function sees them."""

    def order(*, lines: list[Line], to: Address, speed: Speed, due: date, limit: Decimal, tags: set[str]) -> None: ...

    bound = read_signature(order).bind(
        {
            "lines": [{"item": "cup"}],
            "to": {"street": "Mill Lane"},
            "speed": "fast",
            "due": "2030-01-02",
            "limit": "9.99",
            "tags": ["a"],
        }
    )
    assert bound == {
        "lines": [Line("cup", 1)],
        "to": Address(street="Mill Lane"),
        "speed": Speed.FAST,
        "due": date(2030, 1, 2),
        "limit": Decimal("9.99"),
        "tags": {"a"},
    }


def test_defaults_are_filled_in_and_never_shared() -> None:
    """A mutable default is a fresh one for each call, and a constrained one keeps its default."""

    def note(tags: list[str] = ["new"], stars: int = Field(3, le=5)) -> None:  # noqa: B006 - what is tested
        ...

    signature = read_signature(note)
    first = signature.bind({})
    first["tags"].append("x")
    assert signature.bind({}) == {"tags": ["new"], "stars": 3}


@pytest.mark.parametrize("name", ["schema", "copy", "model_config", "json", "class_", "self_"])
def test_any_parameter_name_goes(name: str) -> None:
    """Names that pydantic keeps for itself elsewhere are plain parameters here."""
    space: dict[str, Any] = {}
    exec(f"def tool({name}: int): return {name}", space)  # noqa: S102 - a parameter's name cannot be a variable
    signature = read_signature(space["tool"])
    assert list(signature.schema["properties"]) == [name]
    assert signature.bind({name: 1}) == {name: 1}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "order_id is missing"),
        ({"order_id": 5}, "order_id: Input should be a valid string"),
        ({"order_id": "A", "amount": "12"}, "amount: Input should be a valid number"),
        ({"order_id": "A", "colour": "red"}, "colour is not an argument of this tool"),
        ({"order_id": "A", "amount": float("nan")}, "an argument.amount is not a finite number"),
        ({"order_id": "A", "amount": {1, 2}}, "an argument.amount is a set; JSON cannot carry it"),
    ],
)
def test_arguments_that_do_not_fit_say_what_to_correct(arguments: dict[str, Any], problem: str) -> None:
    """The text names each problem and what the tool takes, so that a model can call again (TOL-3)."""
    with pytest.raises(ArgumentsError) as refused:
        read_signature(refund).bind(arguments)
    text = str(refused.value)
    assert text.startswith(f"The arguments do not fit the tool 'refund': {problem}")
    assert text.endswith("it takes order_id: string, amount (optional): number.")


def test_the_text_never_quotes_the_arguments() -> None:
    """Errors end up in logs and events; arguments may be secrets."""

    def login(pin: int, mode: Literal["a"]) -> None: ...

    with pytest.raises(ArgumentsError) as refused:
        read_signature(login).bind({"pin": "hunter2", "mode": "hunter3", "more": "hunter4"})
    assert "hunter" not in str(refused.value)


def test_a_tool_context_is_no_argument() -> None:
    """A parameter annotated ToolContext, or optionally one, is the worker's to fill."""

    def note(text: str, context: ToolContext, other: ToolContext | None = None) -> None: ...

    signature = read_signature(note)
    assert list(signature.schema["properties"]) == ["text"]
    assert signature.contexts == ("context", "other")


def test_methods_partials_and_callable_objects_are_tools_too() -> None:
    """Whatever can be called with named arguments can be a tool."""

    class Desk:
        def open(self, case: str) -> str:
            """Open a case."""
            return case

        def __call__(self, case: str) -> str:
            """Close a case."""
            return case

    desk = Desk()
    assert list(read_signature(desk.open).schema["properties"]) == ["case"]
    assert read_signature(desk, name="close").description == "Close a case."
    partial = read_signature(functools.partial(refund, amount=1.0))
    assert partial.bind({"order_id": "A"}) == {"order_id": "A", "amount": 1.0}


def _star(*cases: str) -> None: ...
def _stars(**cases: str) -> None: ...
def _positional(case: str, /) -> None: ...
def _stream(case: str) -> Any:
    yield case


def _typed(case: "Nothing") -> None:  # type: ignore[name-defined]  # noqa: F821 - what is tested
    ...


class _Opaque: ...


class _Desk:
    def open_case(self, case: str) -> str:
        return case


def _no_json(case: _Opaque) -> None: ...


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (_star, "a model passes arguments by name, and cannot fill *cases: str"),
        (_stars, "cannot fill **cases: str"),
        (_positional, "cannot fill case: str"),
        (_stream, "yields: return one value"),
        (_typed, "annotations name 'Nothing'"),
        (_Desk.open_case, "is a method, and a model cannot fill 'self'"),
        (_no_json, "use types that have a JSON form"),
        (lambda case: case, "register the tool with name="),
    ],
)
def test_what_no_model_could_call_is_refused_when_registered(function: Any, reason: str) -> None:
    """A tool that could never be called fails at import time, not in a run."""
    with pytest.raises(RegistrationError) as refused:
        read_signature(function)
    assert reason in str(refused.value)


def test_rewording_a_description_keeps_the_digest() -> None:
    """The digest says what arguments must look like; words around it may change."""

    def one(description: Annotated[str, Field(description="A")], other: int = 1) -> None:
        """Say one thing."""

    def two(description: Annotated[str, Field(description="B")], other: int = 1) -> None:
        """Say another."""

    def three(description: Annotated[str, Field(description="A")], other: int = 2) -> None: ...

    def four(other: int = 1) -> None: ...

    digests = [read_signature(each, name="note").digest for each in (one, two, three, four)]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3


_DIGEST = """
from typing import Literal
from turnfleet_worker.signatures import read_signature
def pick(colours: frozenset[str] = frozenset({"red", "green", "blue", "white"}), how: Literal["x", "y"] = "x"): ...
print(read_signature(pick).digest)
"""


def test_the_digest_is_the_same_in_every_process() -> None:
    """Hash seeds differ between processes; what workers announce must not."""
    digests = {
        subprocess.run(
            [sys.executable, "-c", _DIGEST],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
            timeout=240,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(digests) == 1
