"""People in the loop: decisions race, repeat, come in parts, and expire."""

import asyncio
from collections.abc import Callable, Iterator

import pytest
from fleet.conftest import PLAN, call, steps
from fleet.helpers import check_stream, outline
from support.redis_server import RedisServer
from support.waiting import eventually
from support.worker_process import WorkerProcess

from turnfleet import (
    Answer,
    Approve,
    AsyncFleet,
    AsyncRun,
    Edit,
    Fleet,
    InvalidDecision,
    NotAllowed,
    Reject,
    ResumeConflict,
    Run,
    RunExpired,
    RunPaused,
    UnknownInterrupt,
)

Marks = Callable[[str], list[str]]
FINANCE = ("finance",)


@pytest.fixture(scope="module")
def fleet_name(shared_fleet_name: str) -> str:
    """Give the name of the fleet that all tests here share."""
    return shared_fleet_name


@pytest.fixture(scope="module", autouse=True)
def _worker(redis_server: RedisServer, fleet_name: str) -> Iterator[None]:
    """Run its worker."""
    env = {"TURNFLEET_REDIS_URL": redis_server.url, "TURNFLEET_NAME": fleet_name}
    with WorkerProcess("fleet.planned", concurrency=50, env=env):
        yield


def paused(run: Run[object]) -> Run[object]:
    """Wait until a run waits for people."""
    with pytest.raises(RunPaused):
        run.result(timeout=60)
    return run


async def test_of_two_decisions_at_once_one_wins_a_hundred_times(
    fleet: Fleet, redis_url: str, fleet_name: str, marks: Marks
) -> None:
    """One resume succeeds, the other gets ResumeConflict, and what ran is what the winner decided."""
    prompt = steps([call("refund", order_id="1", amount=99)], "over")
    runs = await asyncio.to_thread(fleet.enqueue_many, [(PLAN, prompt)] * 100)
    async with AsyncFleet(redis_url, name=fleet_name, poll_interval=0.5) as people:

        async def race(run_id: str) -> tuple[str, str]:
            run = people.run(run_id)
            with pytest.raises(RunPaused):
                await run.result(timeout=60)
            (waiting,) = await run.interrupts()
            answers = await asyncio.gather(
                run.resume({waiting.id: Approve()}, by="alice", roles=FINANCE),
                run.resume({waiting.id: Reject("too much")}, by="bob", roles=FINANCE),
                return_exceptions=True,
            )
            conflicts = [place for place, answer in enumerate(answers) if isinstance(answer, ResumeConflict)]
            assert len(conflicts) == 1, answers
            (value,) = (await run.result(timeout=60)).tool_outcomes
            return ("approved" if conflicts == [1] else "rejected"), ("approved" if value.error is None else "rejected")

        outcomes = await asyncio.gather(*(race(run.run_id) for run in runs))
    assert [decided for decided, _ in outcomes] == [ran for _, ran in outcomes]
    assert len(marks("refund:")) == sum(1 for decided, _ in outcomes if decided == "approved")


async def test_two_people_answering_two_interrupts_at_once_both_win(
    fleet: Fleet, redis_url: str, fleet_name: str, marks: Marks
) -> None:
    """The run goes on when the second of them has decided, with both decisions (HK-5)."""
    both = [call("refund", order_id="1", amount=60), call("refund", order_id="2", amount=70)]
    enqueued = await asyncio.to_thread(fleet.enqueue, PLAN, steps(both, "over"))
    async with AsyncFleet(redis_url, name=fleet_name, poll_interval=0.5) as people:
        run: AsyncRun[object] = people.run(enqueued.run_id)
        with pytest.raises(RunPaused):
            await run.result(timeout=60)
        first, second = await run.interrupts()
        states = await asyncio.gather(
            run.resume({first.id: Approve()}, by="alice", roles=FINANCE),
            run.resume({second.id: Reject("no")}, by="bob", roles=FINANCE),
        )
        assert sorted(states) == ["paused", "queued"]
        outcome = await run.result(timeout=60)
    assert [each.error is None for each in outcome.tool_outcomes] == [True, False]
    assert marks("refund:") == [f"refund:{enqueued.run_id}:call-0-0:60"]


def test_the_same_decision_twice_succeeds_and_runs_once(fleet: Fleet, marks: Marks) -> None:
    """A lost reply is not a conflict: the repeat succeeds, also when the run has gone on meanwhile."""
    run = paused(fleet.enqueue(PLAN, steps([call("refund", order_id="1", amount=60)], "over")))
    (waiting,) = run.interrupts()
    run.resume({waiting.id: Approve()}, by="alice", roles=FINANCE, decision_id="click-1")
    run.resume({waiting.id: Approve()}, by="alice", roles=FINANCE, decision_id="click-1")
    assert run.result(timeout=60).text == "over"
    run.resume({waiting.id: Approve()}, by="alice", roles=FINANCE)
    with pytest.raises(ResumeConflict):
        run.resume({waiting.id: Reject()}, by="alice", roles=FINANCE)
    assert len(marks("refund:")) == 1


def test_an_edit_runs_the_edited_arguments(fleet: Fleet, marks: Marks) -> None:
    """What a person changed is what the tool gets, and what the model sees."""
    run = paused(fleet.enqueue(PLAN, steps([call("refund", order_id="1", amount=600)], "over")))
    (waiting,) = run.interrupts()
    run.resume({waiting.id: Edit({"order_id": "1", "amount": 60})}, by="alice", roles=FINANCE)
    assert run.result(timeout=60).tool_outcomes[0].value == "refunded 60 for 1"
    assert marks("refund:") == [f"refund:{run.run_id}:call-0-0:60"]


def test_a_rejected_call_is_not_made_and_the_model_sees_the_reason(fleet: Fleet, marks: Marks) -> None:
    """The reason is the call's error outcome (HK-6)."""
    run = paused(fleet.enqueue(PLAN, steps([call("refund", order_id="1", amount=600)], "over")))
    (waiting,) = run.interrupts()
    run.resume({waiting.id: Reject("customer withdrew")}, by="alice", roles=FINANCE)
    assert "customer withdrew" in (run.result(timeout=60).tool_outcomes[0].error or "")
    assert marks("refund:") == []


def test_a_question_is_answered(fleet: Fleet) -> None:
    """`ask` puts a question with a schema; an answer that does not fit is refused and the run still waits."""
    schema = {"type": "integer", "minimum": 0}
    run = paused(fleet.enqueue(PLAN, steps([call("ask", question="How many?", schema=schema)], "thanks")))
    (waiting,) = run.interrupts()
    assert (waiting.kind, waiting.question, waiting.schema) == ("question", "How many?", schema)
    with pytest.raises(InvalidDecision):
        run.resume({waiting.id: Answer("many")}, by="alice")
    run.resume({waiting.id: Answer(12)}, by="alice")
    outcome = run.result(timeout=60)
    assert (outcome.text, outcome.tool_outcomes[0].value) == ("thanks", 12)


def test_a_pause_that_follows_a_pause_keeps_what_was_decided(fleet: Fleet, marks: Marks) -> None:
    """Two rounds, two pauses, three invocations: each effect once, one stream of events."""
    run = paused(
        fleet.enqueue(
            PLAN,
            steps(
                [call("refund", order_id="1", amount=60), call("note", text="x")], [call("ask", question="?")], "end"
            ),
        )
    )
    (waiting,) = run.interrupts()
    run.resume({waiting.id: Approve()}, by="alice", roles=FINANCE)
    paused(run)
    (question,) = run.interrupts()
    run.resume({question.id: Answer("yes")}, by="bob")
    assert run.result(timeout=60).text == "end"
    events = list(run.events(timeout=60))
    check_stream(events)
    assert [kind for kind in outline(events) if kind in {"approval", "question", "resumed", "done"}] == [
        "approval", "resumed", "question", "resumed", "done",
    ]  # fmt: skip
    assert len(marks("refund:")) == len(marks("note:")) == 1
    assert [mark.rsplit(":", 1)[1] for mark in marks("model:")] == ["0", "1", "2"]


def test_nobody_decides_and_the_default_does(fleet: Fleet, marks: Marks) -> None:
    """An approval that expires takes the tool's default decision."""
    run = fleet.enqueue(PLAN, steps([call("hasty")], "went on"))
    eventually(lambda: run.status().state == "completed")
    outcome = run.result(timeout=60)
    assert (outcome.text, "nobody decided" in (outcome.tool_outcomes[0].error or "")) == ("went on", True)
    assert marks("hasty:") == []


def test_nobody_decides_and_there_is_no_default(fleet: Fleet, marks: Marks) -> None:
    """Without a default decision the run expires, with its terminal event."""
    run = fleet.enqueue(PLAN, steps([call("fleeting")], "never"))
    eventually(lambda: run.status().state == "expired")
    with pytest.raises(RunExpired):
        run.result(timeout=60)
    events = list(run.events(timeout=60))
    check_stream(events)
    assert events[-1].kind == "expired"
    assert marks("fleeting:") == []


def test_a_decision_that_may_not_be_taken_changes_nothing(fleet: Fleet) -> None:
    """Without the role, of a wrong kind, for an unknown interrupt, with arguments that do not fit: refused by name."""
    run = paused(fleet.enqueue(PLAN, steps([call("refund", order_id="1", amount=60)], "over")))
    (waiting,) = run.interrupts()
    with pytest.raises(NotAllowed):
        run.resume({waiting.id: Approve()}, by="mallory", roles=("support",))
    with pytest.raises(UnknownInterrupt):
        run.resume({"approval:nothing": Approve()}, by="alice", roles=FINANCE)
    with pytest.raises(InvalidDecision):
        run.resume({waiting.id: Answer(7)}, by="alice", roles=FINANCE)
    with pytest.raises(InvalidDecision):
        run.resume({waiting.id: Edit({"order_id": "1", "amount": "a lot"})}, by="alice", roles=FINANCE)
    assert (run.status().state, run.interrupts()) == ("paused", (waiting,))
    run.resume({waiting.id: Approve()}, by="alice", roles=FINANCE)
    assert run.result(timeout=60).text == "over"
