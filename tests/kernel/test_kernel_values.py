"""The small values: frozen, addable, and the same after a trip through JSON."""

import dataclasses
import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from turnfleet_kernel import (
    Answer,
    Approve,
    Edit,
    Interrupt,
    InvocationPaused,
    ModelTurn,
    Reject,
    Retry,
    UsageDelta,
    contracts,
)
from turnfleet_kernel.contracts.canonical import digest
from turnfleet_kernel.contracts.frozen import FrozenDict, freeze, thaw
from turnfleet_kernel.contracts.interrupts import DECISIONS
from turnfleet_kernel.contracts.json import decision_from_json, decision_to_json, turn_from_json, turn_to_json
from turnfleet_kernel.contracts.plain import plain_json
from turnfleet_kernel.contracts.quick import quick_init
from turnfleet_kernel.testing import ListConversation

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(json_values)
def test_freezing_and_thawing_give_the_value_back(value: Any) -> None:
    """Nothing is lost, and nothing in between can change (IPL-1, STG-8)."""
    frozen = freeze(value)
    assert thaw(frozen) == value
    assert freeze(frozen) == frozen
    assert plain_json(frozen) == value


def test_a_frozen_dict_refuses_every_change() -> None:
    """All mutating methods of a dict, and it stays one (IPL-1)."""
    frozen: Any = freeze({"a": [1]})
    assert isinstance(frozen, dict)
    for change in (
        lambda: frozen.__setitem__("a", 1),
        lambda: frozen.__delitem__("a"),
        lambda: frozen.update(b=1),
        lambda: frozen.pop("a"),
        frozen.popitem,
        lambda: frozen.setdefault("b", 1),
        frozen.clear,
        lambda: frozen.__ior__({"b": 1}),
    ):
        with pytest.raises(TypeError, match="cannot be changed"):
            change()
    assert frozen == {"a": (1,)}


def test_a_dataclass_is_frozen_by_rebuilding_it() -> None:
    """One that can change is refused (STG-8)."""

    @dataclasses.dataclass
    class Loose:
        n: int

    assert freeze(Edit({"a": [1]})).arguments == FrozenDict({"a": (1,)})
    with pytest.raises(TypeError, match="Loose"):
        freeze([Loose(1)])


@pytest.mark.parametrize("value", [float("nan"), {1: "a"}, {"a": {1}}, b"x", object(), "\ud800", [float("inf")]])
def test_what_is_not_json_is_refused(value: Any) -> None:
    """With the path to it, not the value (HK-3)."""
    with pytest.raises(ValueError, match="root"):
        plain_json(value, "root")


def test_digests_tell_arguments_apart() -> None:
    """By content, not by order; wide numbers included (HK-6)."""
    assert digest({"a": 1, "b": [2]}) == digest({"b": (2,), "a": 1})
    assert digest({"a": 2**60}) != digest({"a": 2**60 + 1})
    assert digest({"a": 2**60}) != digest({"a": str(2**60)})


def test_usage_adds_up() -> None:
    """Field by field; nothing is falsy."""
    assert UsageDelta(1, 2, 3) + UsageDelta(10, 0, 1, 5) == UsageDelta(11, 2, 4, 5)
    assert (bool(UsageDelta()), bool(UsageDelta(reasoning_tokens=1))) == (False, True)


@pytest.mark.parametrize("decision", [Approve(3), Approve(), Edit({"a": 1}), Reject("no"), Answer(["x"]), Retry()])
def test_decisions_survive_json(decision: Any) -> None:
    """Told apart by their kind (HK-6)."""
    assert decision_from_json(decision_to_json(decision)) == decision


@pytest.mark.parametrize("wrong", [{"kind": "maybe"}, {"kind": "edit"}, {"kind": "approve", "valu": 1}, "approve"])
def test_what_is_no_decision_is_refused(wrong: Any) -> None:
    """Unknown kinds and keys, missing arguments; the error repeats no input (HK-6)."""
    with pytest.raises(ValidationError) as refused:
        DECISIONS.validate_python(wrong)
    assert "input_value" not in str(refused.value)


def test_a_pause_waits_for_something_that_an_event_can_tell() -> None:
    """At least one interrupt, of a known kind (HK-2, EVT-11)."""
    with pytest.raises(ValueError, match="at least one"):
        InvocationPaused()
    with pytest.raises(ValueError, match="must be one of"):
        Interrupt("i", "wish")  # type: ignore[arg-type]
    assert not issubclass(InvocationPaused, Exception)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"deep": [float("nan")]}, {1}])
def test_a_decision_is_written_as_it_is_or_not_at_all(value: Any) -> None:
    """What JSON cannot carry is refused, never turned into null (HK-3, HK-6)."""
    with pytest.raises(ValueError, match="the decision 'answer'"):
        decision_to_json(Answer(value))
    with pytest.raises(ValueError, match="the decision 'edit'"):
        decision_to_json(Edit({"amount": value}))


def test_a_decision_that_could_not_be_read_again_is_not_written() -> None:
    """It would be in the run's record for ever, and nobody could read that any more."""
    with pytest.raises(ValueError, match="the decision 'reject' is none: reason: Input should be a valid string"):
        decision_to_json(Reject(5))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the decision 'edit' is none: arguments: "):
        decision_to_json(Edit([1]))  # type: ignore[arg-type]


@given(json_values)
def test_a_turn_keeps_what_its_provider_wants_to_see_again(value: Any) -> None:
    """Through JSON, and in the transcript, unread (HK-3)."""
    turn = ModelTurn("hm", UsageDelta(requests=1), provider={"signature": value})
    written = json.loads(json.dumps(turn_to_json(turn)))
    assert turn_from_json(written) == turn
    assert "provider" not in turn_to_json(ModelTurn("hm"))
    transcript: list[Any] = []
    ListConversation().close_round(transcript, turn_from_json(written), (), ())
    ListConversation().close_round(transcript, ModelTurn("hm"), (), ())
    assert [message.get("provider") for message in transcript] == [{"signature": value}, None]


def test_a_quick_constructor_takes_what_the_plain_one_took() -> None:
    """Positions, names and defaults; the value is frozen, compares, and shows itself as before."""

    @dataclasses.dataclass(frozen=True, slots=True)
    class Plain:
        a: int
        b: str = "b"
        c: tuple[int, ...] = ()

    signature, shown = inspect.signature(Plain), repr(Plain(1, c=(2,)))
    quick = quick_init(Plain)
    assert (inspect.signature(quick), repr(quick(1, c=(2,)))) == (signature, shown)
    assert quick(1) == quick(a=1, b="b", c=())
    assert dataclasses.replace(quick(1), a=2) == quick(2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        quick(1).a = 2  # type: ignore[misc]
    with pytest.raises(TypeError):
        quick()  # type: ignore[call-arg]


def test_contracts_name_no_engine() -> None:
    """Contracts import contracts and errors alone, so that whoever imports them depends on nothing else."""
    folder = Path(contracts.__path__[0])
    asked = {
        name
        for source in folder.glob("*.py")
        for name in re.findall(r"^(?:from|import) (turnfleet\S*)", source.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert asked
    assert {name for name in asked if not name.startswith("turnfleet_kernel.contracts.")} == {"turnfleet_kernel.errors"}
