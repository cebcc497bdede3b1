"""People in the loop: deciding interrupts through a handle (DESIGN 4, HK-6)."""

import asyncio
import socket
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from producer.kit import APPROVAL, PLAN, QUESTION, AnyFleet, AnyRun, Stage, do

from turnfleet import (
    Answer,
    Approve,
    Edit,
    IllegalTransition,
    InvalidDecision,
    NotAllowed,
    Reject,
    ResumeConflict,
    Retry,
    TurnfleetError,
    UnknownInterrupt,
    UnknownRun,
)
from turnfleet.store.records import StoredInterrupt

IN_DOUBT = StoredInterrupt(id="in_doubt:c3", kind="in_doubt", payload=APPROVAL.payload)


async def _paused(fleet: AnyFleet, stage: Stage, *interrupts: StoredInterrupt) -> AnyRun:
    run: AnyRun = await do(fleet.enqueue, PLAN, "hi")
    stage.pauses(stage.claim(run.run_id), *interrupts)
    return run


async def test_the_open_interrupts_say_what_is_asked(fleet: AnyFleet, stage: Stage) -> None:
    """Tool, arguments, digest, roles and expiry of each, in request order."""
    run = await _paused(fleet, stage, replace(APPROVAL, roles=("finance",), expires_in_ms=60_000), QUESTION)
    approval, question = await do(run.interrupts)
    assert (approval.tool, approval.arguments) == ("refund", {"order_id": "1001", "amount": 80})
    assert (approval.digest, approval.roles, approval.open) == ("d1", ("finance",), True)
    assert approval.expires_at is not None
    assert (question.question, question.schema, question.expires_at) == (
        "Which colour?",
        {"enum": ["red", "blue"]},
        None,
    )


async def test_the_last_decision_makes_the_run_go_on(fleet: AnyFleet, stage: Stage) -> None:
    """One decision of two leaves it paused; with the second it is queued, and offered under a number of its own."""
    run = await _paused(fleet, stage, APPROVAL, QUESTION)
    assert await do(run.resume, {APPROVAL.id: Approve()}, by="alice") == "paused"
    assert stage.published() == [run.run_id]
    assert await do(run.resume, {QUESTION.id: Answer("red")}, by="bob") == "queued"
    assert stage.published() == [run.run_id, f"{run.run_id}:2"]
    claim = stage.claim(run.run_id)
    decisions = [
        (entry["interrupt"], entry["decision"], entry["by"]) for entry in claim.journal if entry["k"] == "decision"
    ]
    assert sorted(decisions, key=str) == sorted(
        [
            (APPROVAL.id, {"kind": "approve", "value": None}, "alice"),
            (QUESTION.id, {"kind": "answer", "value": "red"}, "bob"),
        ],
        key=str,
    )


async def test_decided_interrupts_stay_readable(fleet: AnyFleet, stage: Stage) -> None:
    """The status tells who decided what."""
    run = await _paused(fleet, stage, APPROVAL, QUESTION)
    await do(run.resume, {APPROVAL.id: Reject("too much")}, by="alice")
    status = await do(run.status)
    assert [each.id for each in status.interrupts] == [QUESTION.id]
    ((decided),) = status.decided
    assert (decided.id, decided.decision, decided.by) == (APPROVAL.id, Reject("too much"), "alice")
    assert decided.decided_at is not None
    await do(run.resume, {QUESTION.id: Answer("blue")}, by="bob")
    (listed,) = await do(fleet.runs)
    assert [(each.id, each.by) for each in listed.decided] == [(APPROVAL.id, "alice"), (QUESTION.id, "bob")]


async def test_two_people_on_one_interrupt_one_wins(fleet: AnyFleet, stage: Stage) -> None:
    """The other gets ResumeConflict, which names the winner; the winner's decision is what counts."""
    for _ in range(20):
        run = await _paused(fleet, stage, APPROVAL)
        answers = await asyncio.gather(
            do(run.resume, {APPROVAL.id: Approve()}, by="alice"),
            do(run.resume, {APPROVAL.id: Reject("no")}, by="bob"),
            return_exceptions=True,
        )
        (lost,) = [each for each in answers if isinstance(each, ResumeConflict)]
        assert [each for each in answers if each is not lost] == ["queued"]
        winner = "alice" if isinstance(answers[0], str) else "bob"
        assert (lost.decided_by, (await do(run.status)).decided[0].by) == (winner, winner)


async def test_two_people_on_two_interrupts_both_win(fleet: AnyFleet, stage: Stage) -> None:
    """Each decision is on its own; exactly one call makes the run go on."""
    run = await _paused(fleet, stage, APPROVAL, QUESTION)
    answers = await asyncio.gather(
        do(run.resume, {APPROVAL.id: Approve()}, by="alice"), do(run.resume, {QUESTION.id: Answer("red")}, by="bob")
    )
    assert sorted(answers) == ["paused", "queued"]
    assert stage.published() == [run.run_id, f"{run.run_id}:2"]


@pytest.mark.parametrize("who", [{"by": ["alice", "alice"]}, {"by": ["a", "b"], "decision_id": ["click-1", "click-1"]}])
async def test_the_same_decision_sent_twice_succeeds(fleet: AnyFleet, stage: Stage, who: dict[str, list[str]]) -> None:
    """A lost reply is no conflict: neither for the same person nor under the same decision id."""
    run = await _paused(fleet, stage, APPROVAL)
    for time in (0, 1):
        await do(run.resume, {APPROVAL.id: Approve()}, **{name: values[time] for name, values in who.items()})
    assert stage.published() == [run.run_id, f"{run.run_id}:2"]


@pytest.mark.parametrize(
    ("decisions", "error", "says"),
    [
        ({"nobody": Approve()}, UnknownInterrupt, "nobody"),
        ({APPROVAL.id: Answer("x")}, InvalidDecision, "approve, edit, reject, not answer"),
        ({APPROVAL.id: Retry()}, InvalidDecision, "not retry"),
        ({QUESTION.id: Approve()}, InvalidDecision, "answer, reject, not approve"),
        ({IN_DOUBT.id: Answer(1)}, InvalidDecision, "not answer"),
        ({QUESTION.id: Answer("green")}, InvalidDecision, "the answer: it must satisfy enum"),
        ({APPROVAL.id: Edit({"order_id": 1001, "amount": 80})}, InvalidDecision, "order_id must be of type string"),
        ({APPROVAL.id: Edit({"amount": 80})}, InvalidDecision, "it lacks order_id"),
        ({APPROVAL.id: Edit({"order_id": "1", "amount": 101})}, InvalidDecision, "amount must satisfy maximum 100"),
        ({APPROVAL.id: Edit({"order_id": "1", "amount": 1, "x": 1})}, InvalidDecision, "besides order_id, amount"),
        ({IN_DOUBT.id: Approve(float("nan"))}, InvalidDecision, "JSON"),
        ({IN_DOUBT.id: Approve(object())}, InvalidDecision, "JSON"),
        ({APPROVAL.id: Reject("\ud800")}, InvalidDecision, "the reason"),
        ({APPROVAL.id: "yes"}, InvalidDecision, "not with a str"),
        ({APPROVAL.id: Approve(), "nobody": Approve()}, UnknownInterrupt, "nobody"),
        ({}, InvalidDecision, "at least one"),
    ],
)
async def test_a_decision_that_does_not_fit_changes_nothing(
    fleet: AnyFleet, stage: Stage, decisions: Any, error: type[TurnfleetError], says: str
) -> None:
    """Kinds (HK-6), arguments against the tool's schema, answers against the question's: all or nothing."""
    run = await _paused(fleet, stage, APPROVAL, QUESTION, IN_DOUBT)
    before = stage.dump(run.run_id)
    with pytest.raises(error, match=says):
        await do(run.resume, decisions, by="alice")
    assert stage.dump(run.run_id) == before


async def test_no_error_shows_what_was_decided(fleet: AnyFleet, stage: Stage) -> None:
    """Arguments and answers may be private: the message has the place and the rule."""
    run = await _paused(fleet, stage, APPROVAL, QUESTION)
    for decisions in ({QUESTION.id: Answer("hunter2")}, {APPROVAL.id: Edit({"order_id": 5, "amount": "hunter2"})}):
        with pytest.raises(InvalidDecision) as refused:
            await do(run.resume, decisions, by="alice")
        assert "hunter2" not in str(refused.value)


async def test_an_edit_that_fits_is_taken(fleet: AnyFleet, stage: Stage) -> None:
    """The new arguments are in the journal."""
    run = await _paused(fleet, stage, APPROVAL)
    arguments = {"order_id": "1001", "amount": 50}
    assert await do(run.resume, {APPROVAL.id: Edit(arguments)}, by="alice") == "queued"
    (entry,) = [entry for entry in stage.claim(run.run_id).journal if entry["k"] == "decision"]
    assert entry["decision"] == {"kind": "edit", "arguments": arguments}


@pytest.mark.parametrize("roles", [(), ("sales",)])
async def test_who_has_none_of_the_roles_may_not_decide(fleet: AnyFleet, stage: Stage, roles: tuple[str, ...]) -> None:
    """Stating no role is as good as having none; the error names those that may."""
    run = await _paused(fleet, stage, replace(APPROVAL, roles=("finance", "boss")))
    before = stage.dump(run.run_id)
    with pytest.raises(NotAllowed, match="finance, boss"):
        await do(run.resume, {APPROVAL.id: Approve()}, by="alice", roles=roles)
    assert stage.dump(run.run_id) == before
    assert await do(run.resume, {APPROVAL.id: Approve()}, by="alice", roles=("sales", "boss")) == "queued"


async def test_a_decision_is_bound_to_what_was_shown(fleet: AnyFleet, stage: Stage) -> None:
    """A digest that is not the interrupt's means that something else was on the screen."""
    run = await _paused(fleet, stage, APPROVAL)
    before = stage.dump(run.run_id)
    with pytest.raises(ResumeConflict, match="changed since it was shown"):
        await do(run.resume, {APPROVAL.id: Approve()}, by="alice", shown={APPROVAL.id: "another"})
    assert stage.dump(run.run_id) == before
    assert await do(run.resume, {APPROVAL.id: Approve()}, by="alice", shown={APPROVAL.id: "d1"}) == "queued"


async def test_a_run_that_is_not_paused_cannot_be_resumed(fleet: AnyFleet, stage: Stage) -> None:
    """The error says what it is: finished, or never there."""
    run = await do(fleet.enqueue, PLAN, "hi")
    stage.completes(stage.claim(run.run_id))
    before = stage.dump(run.run_id)
    with pytest.raises(IllegalTransition, match="completed"):
        await do(run.resume, {APPROVAL.id: Approve()}, by="alice")
    assert stage.dump(run.run_id) == before
    with pytest.raises(UnknownRun):
        await do(fleet.run("nobody").resume, {APPROVAL.id: Approve()})


async def test_a_broker_that_is_away_does_not_undo_a_decision(
    fleet: AnyFleet, another: Callable[..., AnyFleet], stage: Stage
) -> None:
    """The decision is recorded, so resuming succeeds; the sweep offers the run (DESIGN 4)."""
    run = await _paused(fleet, stage, APPROVAL)
    cut_off = another(broker_url="redis://127.0.0.1:1/0", timeout=5)
    assert await do(cut_off.run(run.run_id).resume, {APPROVAL.id: Approve()}, by="alice") == "queued"
    assert (await do(run.status)).state == "queued"
    assert stage.published() == [run.run_id]


async def test_a_schema_cannot_make_this_process_fetch_anything(fleet: AnyFleet, stage: Stage) -> None:
    """A reference to somewhere else is not followed; the interrupt can still be rejected."""
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        elsewhere.settimeout(0)
        schema = {"$ref": f"http://127.0.0.1:{elsewhere.getsockname()[1]}/schema.json"}
        run = await _paused(fleet, stage, replace(QUESTION, schema=schema))
        with pytest.raises(InvalidDecision, match="the schema to check it by cannot be used"):
            await do(run.resume, {QUESTION.id: Answer("red")}, by="alice")
        with pytest.raises(BlockingIOError):
            elsewhere.accept()
    assert await do(run.resume, {QUESTION.id: Reject()}, by="alice") == "queued"


async def test_a_schema_that_is_none_is_refused(fleet: AnyFleet, stage: Stage) -> None:
    """What cannot be checked is not taken."""
    run = await _paused(fleet, stage, replace(QUESTION, schema={"type": 7}))
    with pytest.raises(InvalidDecision, match="the schema to check it by cannot be used"):
        await do(run.resume, {QUESTION.id: Answer("red")}, by="alice")
