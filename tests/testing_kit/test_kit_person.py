"""A scripted person decides like anybody: by a name, with roles, and only what may be decided."""

from typing import Any

import pytest
from testing_kit.kit import PLAN, Desk, refund, script

from turnfleet import Answer, Approve, Decision, Edit, InvalidDecision, NotAllowed, Reject, RunInterrupt, RunPaused
from turnfleet_worker.testing import Person, call, local_fleet

REFUND = (refund(80), "done")


def test_a_person_decides_and_remembers_what_was_asked() -> None:
    """`result()` never sees the pause: the run goes on as soon as it is decided."""
    desk = Desk()
    alice = Person({"refund": Approve()}, name="alice", roles=("finance",))
    with local_fleet(desk.registry, models=script(*REFUND), person=alice) as fleet:
        run = fleet.enqueue(PLAN, "refund")
        assert run.result().text == "done"
        assert desk.done == ["refund 80"]
        (asked,) = alice.seen
        assert fleet.person is alice
        assert (asked.interrupt.tool, asked.interrupt.arguments) == ("refund", {"amount": 80.0})
        assert (asked.decision, asked.refused) == (Approve(), None)
        assert [each.by for each in run.status().decided] == ["alice"]


def test_a_person_without_the_role_decides_nothing() -> None:
    """The decision is refused as it would be in the fleet, and the error of the waiting test says so."""
    desk = Desk()
    bob = Person({"refund": Approve()}, name="bob", roles=("support",))
    with local_fleet(desk.registry, models=script(*REFUND), person=bob) as fleet:
        run = fleet.enqueue(PLAN, "refund")
        with pytest.raises(RunPaused) as paused:
            run.result()
        assert run.status().state == "paused"
        assert isinstance(bob.seen[0].refused, NotAllowed)
        assert desk.done == []
    (note,) = paused.value.__notes__
    assert "<Person 'bob' with the roles support>" in note
    assert "may be decided by finance only" in note


def _by_amount(interrupt: RunInterrupt) -> Decision | None:
    amount = (interrupt.arguments or {})["amount"]
    if amount > 1000:
        return None
    return Edit({"amount": 60.0}) if amount > 90 else Reject("no")


@pytest.mark.parametrize(("amount", "done", "state"), [(80, [], "completed"), (100, ["refund 60"], "completed")])
def test_a_person_may_be_a_function(amount: float, done: list[str], state: str) -> None:
    """It sees all that a person sees."""
    desk = Desk()
    models = script(refund(amount), "done")
    with local_fleet(desk.registry, models=models, person=Person(_by_amount, roles=("finance",))) as fleet:
        run = fleet.enqueue(PLAN, "refund")
        assert run.result().text == "done"
        assert (desk.done, run.status().state) == (done, state)


def test_what_a_person_leaves_open_stays_open_for_anybody_and_for_time() -> None:
    """None is no decision; neither is a tool that the script does not name."""
    desk = Desk()
    silent = Person({"other": Approve()}, roles=("finance",))
    with local_fleet(desk.registry, models=script(refund(5000), "done"), person=silent) as fleet:
        run = fleet.enqueue(PLAN, "refund")
        with pytest.raises(RunPaused) as paused:
            run.result()
        assert [asked.decision for asked in silent.seen] == [None]
        assert not hasattr(paused.value, "__notes__")
        run.resume({"approval:c1": Approve()}, by="alice", roles=("finance",))
        assert run.result().text == "done"
        assert desk.done == ["refund 5000"]


def test_questions_go_by_the_name_ask() -> None:
    """And the answer must fit its schema, here as everywhere."""
    question: Any = (call("ask", "q1", question="How many?", schema={"type": "integer"}), "done")
    for answer, refused in ((Answer(3), None), (Answer("three"), InvalidDecision)):
        person = Person({"ask": answer})
        with local_fleet(Desk().registry, models=script(*question), person=person) as fleet:
            run = fleet.enqueue(PLAN, "ask")
            fleet.settle()
            assert run.status().state == ("paused" if refused else "completed")
            assert person.seen[0].interrupt.question == "How many?"
            assert type(person.seen[0].refused) is (refused or type(None))


def _breaks(interrupt: RunInterrupt) -> Decision:
    raise KeyError(interrupt.id)


def test_a_script_that_breaks_is_the_tests_error() -> None:
    """What a person's function raises is the cause of what the waiting test sees."""
    person = Person({"refund": _breaks})
    with local_fleet(Desk().registry, models=script(*REFUND), person=person) as fleet:
        with pytest.raises(RunPaused) as paused:
            fleet.enqueue(PLAN, "refund").result()
        assert isinstance(paused.value.__cause__, KeyError)


@pytest.mark.parametrize(
    ("script_", "options", "says"),
    [
        ({"refund": Approve}, {}, "a person's script holds decisions, such as Approve\\(\\), or functions"),
        ({"refund": True}, {}, "a person's script holds decisions"),
        ({"refund": Approve()}, {"roles": "finance"}, "roles= is a sequence of role names"),
    ],
)
def test_a_script_that_decides_nothing_is_refused(script_: Any, options: Any, says: str) -> None:
    """Where it is written: in the fleet it would look like a person who may not decide."""
    with pytest.raises(TypeError, match=says):
        Person(script_, **options)


def test_what_is_no_person_or_registry_is_refused() -> None:
    """With what would be one."""
    not_a_person: Any = {"refund": Approve()}
    with pytest.raises(TypeError, match="person= is a Person, as Person"):
        local_fleet(Desk().registry, person=not_a_person)
    not_a_registry: Any = "myfleet:registry"
    with pytest.raises(TypeError, match="local_fleet takes the Registry"):
        local_fleet(not_a_registry)


def test_a_local_fleet_can_be_shown() -> None:
    """Pytest shows the values of an assertion that failed."""
    with local_fleet(Desk().registry) as fleet:
        assert repr(fleet) == "<Fleet local in this process>"
