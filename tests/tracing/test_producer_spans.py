"""What a client's calls leave in traces, in the run's record and in the headers of its messages."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from opentelemetry import baggage, context
from producer.kit import APPROVAL, PLAN, AnyFleet, Stage, client_of, do, stage_of
from support.spans import Seen
from tracing.conftest import Tape

from turnfleet import Approve, RunIdConflict
from turnfleet.store.records import ClaimRef


@pytest.fixture
def stage(redis_url: str, fleet_name: str) -> Iterator[Stage]:
    """Play the worker, and look behind."""
    yield from stage_of(redis_url, fleet_name)


@pytest.fixture(params=["sync", "async"])
async def fleet(request: pytest.FixtureRequest, redis_url: str, fleet_name: str) -> AsyncIterator[AnyFleet]:
    """Give each client in turn."""
    async with client_of(request.param, redis_url, fleet_name) as client:
        yield client


def place(span: Seen) -> str:
    """Give a span's ids as the W3C header spells them."""
    return f"00-{span.trace_id.removeprefix('0x')}-{span.span_id.removeprefix('0x')}"


def carried(message: dict[str, Any]) -> str:
    """Give the ids in a message's header, without the flags."""
    return str(message["headers"]["traceparent"]).rpartition("-")[0]


def kept(trace: str | None) -> str:
    """Give the ids in what a record keeps, which is the header alone."""
    ((name, value),) = json.loads(trace or "").items()
    assert name == "traceparent"
    return str(value).rpartition("-")[0]


async def test_enqueue_is_a_producer_span_that_the_message_and_the_record_carry(
    fleet: AnyFleet, stage: Stage, tape: Tape
) -> None:
    """Named as the messaging conventions say; nothing of the request is in it."""
    await do(fleet.enqueue, PLAN, "Refund order 1001", run_id="r1", thread_id="t1", tenant="acme")
    (span,) = tape.seen
    assert (span.name, span.kind, span.failed) == (f"enqueue turnfleet.{stage.fleet}", "PRODUCER", False)
    assert span.attributes == {
        "messaging.system": "celery",
        "messaging.operation.name": "enqueue",
        "messaging.operation.type": "send",
        "messaging.destination.name": f"turnfleet.{stage.fleet}",
        "messaging.message.id": "r1",
        "gen_ai.agent.name": "support",
        "gen_ai.agent.version": "1",
        "gen_ai.conversation.id": "t1",
        "turnfleet.fleet": stage.fleet,
        "turnfleet.run_id": "r1",
        "turnfleet.tenant": "acme",
    }
    (message,) = stage.messages()
    assert carried(message) == place(span)
    assert kept(stage.claim("r1").trace) == place(span)
    assert "1001" not in span.text


async def test_a_batch_is_one_span_and_all_its_runs_begin_there(fleet: AnyFleet, stage: Stage, tape: Tape) -> None:
    """One trace for a batch, however long."""
    await do(fleet.enqueue_many, [(PLAN, "one"), (PLAN, "two")])
    span = tape.one("enqueue_many")
    assert (span.kind, span.attributes["messaging.batch.message_count"]) == ("PRODUCER", 2)
    assert [carried(message) for message in stage.messages()] == [place(span)] * 2


async def test_baggage_and_the_callers_own_span_go_along(fleet: AnyFleet, stage: Stage, tape: Tape) -> None:
    """The enqueue is part of the request that is being served."""
    with tape.tracer.start_as_current_span("POST /refunds"):
        token = context.attach(baggage.set_baggage("customer", "c7"))
        await do(fleet.enqueue, PLAN, "hello", run_id="r1")
        context.detach(token)
    enqueue, request = tape.one("enqueue"), tape.one("POST")
    assert (enqueue.parent_id, enqueue.trace_id) == (request.span_id, request.trace_id)
    (message,) = stage.messages()
    assert message["headers"]["baggage"] == "customer=c7"


async def test_a_later_message_carries_what_caused_it(fleet: AnyFleet, stage: Stage, tape: Tape) -> None:
    """A resume's and a retry's span, not the enqueue's, which the record keeps."""
    run = await do(fleet.enqueue, PLAN, "hello", run_id="r1")
    stage.pauses(stage.claim("r1"), APPROVAL)
    await do(run.resume, {APPROVAL.id: Approve()}, by="alice")
    claim = stage.claim("r1")
    assert kept(claim.trace) == place(tape.one("enqueue"))
    stage.fails(claim)
    await do(run.retry)
    causes = [carried(message) for message in stage.messages()]
    assert causes == [place(tape.one(name)) for name in ("enqueue", "resume", "retry")]
    assert {span.name: span.kind for span in tape.seen[1:]} == {"resume": "PRODUCER", "retry": "PRODUCER"}


async def test_the_next_run_of_a_thread_keeps_its_own_trace(fleet: AnyFleet, stage: Stage, tape: Tape) -> None:
    """Its first message is published by whoever ended the run in front of it, and is still not part of that."""
    first = await do(fleet.enqueue, PLAN, "one", run_id="r1", thread_id="t1")
    await do(fleet.enqueue, PLAN, "two", run_id="r2", thread_id="t1")
    await do(first.cancel, "enough")
    own = next(span for span in tape.seen if span.attributes["turnfleet.run_id"] == "r2")
    (message,) = (message for message in stage.messages() if message["headers"]["id"] == "r2")
    assert carried(message) == place(own)
    assert (tape.one("cancel").kind, tape.one("cancel").attributes["turnfleet.run_id"]) == ("CLIENT", "r1")


async def test_a_call_that_fails_says_the_type_of_its_error_alone(
    fleet: AnyFleet, tape: Tape, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its text is content: it comes with the switch that shows content."""
    await do(fleet.enqueue, PLAN, "hello", run_id="r1")
    with pytest.raises(RunIdConflict):
        await do(fleet.enqueue, PLAN, "something else", run_id="r1")
    failed = next(span for span in tape.seen if span.failed)
    assert failed.attributes["error.type"] == "RunIdConflict"
    assert "another request" not in failed.text
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    with pytest.raises(RunIdConflict) as conflict:
        await do(fleet.enqueue, PLAN, "something else", run_id="r1")
    assert str(conflict.value).split(";")[0] in tape.seen[-1].text


def test_without_an_sdk_nothing_is_carried_and_nothing_kept(redis_url: str, fleet_name: str) -> None:
    """A message's headers and a run's record are then what they were before there were traces."""
    code = (
        "import sys; from turnfleet import Fleet, PlanSpec\n"
        "with Fleet(sys.argv[1], name=sys.argv[2]) as fleet:\n"
        "    fleet.enqueue(PlanSpec(name='p', model='m'), 'hello', run_id='r1')"
    )
    subprocess.run([sys.executable, "-c", code, redis_url, fleet_name], check=True)
    for stage in stage_of(redis_url, fleet_name):
        (message,) = stage.messages()
        assert {"traceparent", "tracestate", "baggage"} & set(message["headers"]) == set()
        assert b"trace" not in stage.dump("r1")["record"]
        assert stage.claim("r1").trace is None


def released(stage: Stage, claim: Any) -> None:
    """Hand a run back as a worker that stops does."""
    from turnfleet.store import commands

    ref = ClaimRef(claim.run_id, claim.claim_id)
    offer = stage.executor.execute(commands.release(stage.keys, ref, seq=claim.seq + 1))
    assert getattr(offer, "trace", "") is None


async def test_only_a_run_that_never_started_is_offered_with_its_trace(
    fleet: AnyFleet, stage: Stage, tape: Tape
) -> None:
    """The store gives the sweep what the message needs; a run that was handed back has another cause."""
    from turnfleet.store import commands

    await do(fleet.enqueue, PLAN, "hello", run_id="r1", countdown=0.001)
    offer = stage.executor.execute(commands.offer_now(stage.keys, "r1"))
    assert offer is not None
    assert kept(offer.trace) == place(tape.one("enqueue"))
    released(stage, stage.claim("r1"))
