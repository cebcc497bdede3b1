"""The main job: enqueue, watch, pause, decide, go on, done. Real Redis, real worker processes."""

import signal
from collections.abc import Callable

import pytest
import redis
from fleet.conftest import PLAN, StartWorker, call, steps
from fleet.helpers import check_stream, outline
from support.waiting import eventually

from turnfleet import Approve, Fleet, RunPaused, UsageDelta

Marks = Callable[[str], list[str]]


def test_a_run_completes_and_its_events_tell_the_whole_story(fleet: Fleet, start_worker: StartWorker) -> None:
    """A run with one tool round gives its events in order and its outcome."""
    start_worker()
    run = fleet.enqueue(PLAN, steps([call("note", text="hello")], "all is well"))
    events = list(run.events(timeout=60))
    check_stream(events)
    assert outline(events) == ["usage", "tool_call", "tool_result", "text_delta", "usage", "done"]
    outcome = run.result(timeout=60)
    assert outcome.text == "all is well"
    assert [each.value for each in outcome.tool_outcomes] == ["hello"]
    assert outcome.usage == UsageDelta(input_tokens=20, output_tokens=4, requests=2)
    assert run.status().state == "completed"


def test_a_paused_run_goes_on_in_another_worker_where_its_events_were(
    fleet: Fleet, start_worker: StartWorker, marks: Marks
) -> None:
    """The first worker is gone when a person decides; the second continues, and its event indices too (HK-4, EVT-2)."""
    first = start_worker()
    run = fleet.enqueue(PLAN, steps([call("refund", order_id="1001", amount=80)], "refunded"))
    before = list(run.events(until="pause", timeout=60))
    assert before[-1].kind == "approval"
    eventually(lambda: run.status().state == "paused")
    assert first.stop() == 0
    (waiting,) = run.interrupts()
    assert (waiting.tool, waiting.roles) == ("refund", ("finance",))
    assert run.resume({waiting.id: Approve()}, by="alice", roles=("finance",)) == "queued"
    start_worker()
    events = list(run.events(timeout=60))
    check_stream(events)
    assert events[: len(before)] == before
    assert outline(events) == [
        "usage", "approval", "resumed", "tool_call", "tool_result", "text_delta", "usage", "done",
    ]  # fmt: skip
    assert run.result(timeout=60).text == "refunded"
    # The first turn was bought once: its replay asked no model.
    assert marks("model:") == [f"model:{run.run_id}:0", f"model:{run.run_id}:1"]
    assert marks("refund:") == [f"refund:{run.run_id}:call-0-0:80"]


def test_waiting_for_a_paused_run_says_what_it_waits_for(fleet: Fleet, start_worker: StartWorker) -> None:
    """result() does not hang on a person: it raises RunPaused with the open interrupts."""
    start_worker()
    run = fleet.enqueue(PLAN, steps([call("refund", order_id="7", amount=99)], "ok"))
    with pytest.raises(RunPaused) as paused:
        run.result(timeout=60)
    assert [each.payload["tool"] for each in paused.value.interrupts] == ["refund"]


def test_a_worker_that_is_asked_to_stop_hands_its_run_over(
    fleet: Fleet, start_worker: StartWorker, client: redis.Redis, fleet_name: str, marks: Marks
) -> None:
    """SIGTERM at a journal point: the run is queued again, no attempt is lost, nothing is bought or called twice."""
    first = start_worker()
    gate = f"gate:{fleet_name}"
    run = fleet.enqueue(PLAN, steps([call("wait_for", key=gate)], [call("note", text="x")], "done"))
    eventually(lambda: marks("wait_for:"))
    first.send(signal.SIGTERM)
    eventually(lambda: [worker["draining"] for worker in fleet.workers()] == [True])
    client.rpush(gate, "open")
    assert first.wait() == 0
    status = eventually(lambda: (seen := run.status()).state == "queued" and seen, what="handed back")
    assert status.losses == 0
    start_worker()
    assert run.result(timeout=60).text == "done"
    check_stream(list(run.events(timeout=60)))
    assert [mark.split(":")[0] for mark in marks("")] == ["model", "wait_for", "model", "note", "model"]


def test_a_cancel_that_came_first_is_the_end(
    fleet: Fleet, start_worker: StartWorker, fleet_name: str, marks: Marks
) -> None:
    """A running run is cancelled while its tool waits; no further tool starts."""
    start_worker()
    run = fleet.enqueue(PLAN, steps([call("wait_for", key=f"never:{fleet_name}")], [call("note", text="x")], "no"))
    eventually(lambda: marks("wait_for:"))
    assert run.cancel("changed my mind") is True
    events = list(run.events(timeout=60))
    check_stream(events)
    assert (events[-1].kind, events[-1].reason) == ("cancelled", "changed my mind")
    assert run.status().state == "cancelled"
    assert run.cancel() is False
    assert marks("note:") == []
