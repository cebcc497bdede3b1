"""The envelope, its digests, and its published schema (DESIGN 7)."""

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnfleet import InvalidEnvelope, PlanSpec, TurnRequest
from turnfleet.store.records import Offer
from turnfleet.wire import (
    Envelope,
    RequestBody,
    RunOptions,
    celery_settings,
    envelope_schema,
    first_offer,
    new_run,
    parse_envelope,
    reoffer,
    request_digest,
    task_id,
)
from turnfleet_kernel.contracts.spec import plan_id

FOREIGN = {"v": 1, "fleet": "f", "run_id": "r", "plan": {"name": "p", "model": "m"}, "request": {"prompt": "hi"}}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    prompt=st.text(), attachments=st.lists(json_values, max_size=3), metadata=st.dictionaries(st.text(), json_values)
)
def test_a_request_survives_the_wire(prompt: str, attachments: list[Any], metadata: dict[str, Any]) -> None:
    """What the kernel runs is what was asked for; its digest is the same on both sides."""
    request = TurnRequest(prompt, attachments=tuple(attachments), metadata=metadata)
    body = RequestBody.of(request)
    again = RequestBody.model_validate(json.loads(json.dumps(body.to_json())))
    assert again == body
    assert request_digest("0" * 64, again.to_json()) == request_digest("0" * 64, body.to_json())
    turn = again.turn_request("r")
    assert (turn.prompt, list(turn.attachments), turn.metadata) == (prompt, attachments, metadata)


def test_an_envelope_survives_the_wire() -> None:
    """Written, sent as JSON, and read again it is equal; defaults do not travel, the version does."""
    envelope = parse_envelope(FOREIGN)
    sent = json.loads(json.dumps(envelope.to_json()))
    assert parse_envelope(sent) == envelope
    assert sent["v"] == 1
    assert "options" not in sent


def test_digests_are_pinned() -> None:
    """A client in another language can check its own against these: SHA-256 over RFC 8785 JSON (IPL-4)."""
    envelope = parse_envelope(FOREIGN)
    assert envelope.plan_id == plan_id(PlanSpec(name="p", model="m"))
    assert envelope.plan_id == "1d2075884b50fadec61d19cf11e7d5cedae66cf44542176a4e4eea269f5560ca"
    assert envelope.digest == "cc51b3d3e346ec6f93f79b994e943610e09860904c30c3bedece997d1537b20c"


def test_defaults_that_are_spelled_out_ask_for_the_same_run() -> None:
    """The digest is over what differs from the defaults."""
    spelled = {"prompt": "hi", "attachments": [], "history": [], "metadata": {}}
    assert parse_envelope({**FOREIGN, "request": spelled}).digest == parse_envelope(FOREIGN).digest


def test_how_to_queue_is_no_part_of_the_request() -> None:
    """Options may differ between two tries of one enqueue."""
    assert parse_envelope({**FOREIGN, "options": {"priority": 9}}).digest == parse_envelope(FOREIGN).digest


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"v": 2}, "version 2 is not served"),
        ({"v": "x"}, "version not a number"),
        ({"fleet": "a b"}, "fleet"),
        ({"run_id": "a b"}, "run_id"),
        ({"plan": {"name": "p"}}, "plan.model"),
        ({"plan": None, "plan_id": "0" * 64, "digest": "0" * 64}, "come together"),
        ({"plan": None, "request": None}, "plan_id: Field required"),
        ({"plan": None, "request": None, "plan_id": "0" * 64, "digest": "0" * 64}, "recorded=true"),
        ({"request": {"prompt": "hi", "decisions": {}}}, "request.decisions"),
        ({"request": {"prompt": 5}}, "request.prompt"),
        ({"plan_id": "0" * 64}, "plan_id is not"),
        ({"digest": "0" * 64}, "digest is not"),
        ({"options": {"priority": 11}}, "options.priority"),
        ({"options": {"thread_id": "a b"}}, "options.thread_id"),
        ({"options": {"eta": "soon"}}, "options.eta"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_what_is_no_envelope_is_refused_by_field(changes: dict[str, Any], says: str) -> None:
    """Each problem with its place; values are not repeated."""
    with pytest.raises(InvalidEnvelope, match=says):
        parse_envelope({**FOREIGN, **changes})


@pytest.mark.parametrize("value", [None, 5, "x", [], {}])
def test_anything_may_arrive(value: object) -> None:
    """A message body of any kind is a named error."""
    with pytest.raises(InvalidEnvelope):
        parse_envelope(value)


def test_errors_show_no_content() -> None:
    """A prompt of the wrong type is not repeated in the error, nor is a plan's text."""
    with pytest.raises(InvalidEnvelope) as refused:
        parse_envelope({**FOREIGN, "request": {"prompt": ["hunter2"]}, "plan": {"instructions": ["hunter2"]}})
    assert "hunter2" not in str(refused.value)


def test_the_published_schema_accepts_what_we_send_and_a_foreign_clients_message() -> None:
    """plan_id and digest may be left out: the worker works them out."""
    schema = envelope_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(FOREIGN)
    validator.validate(parse_envelope(FOREIGN).to_json())
    assert not validator.is_valid({"v": 1})
    assert not validator.is_valid({**FOREIGN, "v": 2})


def test_a_first_message_makes_the_record() -> None:
    """All that the worker needs is in the record: plan, request, and how to queue (seconds become milliseconds)."""
    options = {"priority": 7, "thread_id": "t", "tenant": "acme", "eta": 1.5, "expires": 2.25, "metadata": {"a": 1}}
    run = new_run(parse_envelope({**FOREIGN, "options": options}))
    assert (run.plan, run.request) == ({"name": "p", "model": "m"}, {"prompt": "hi"})
    assert (run.queue, run.priority, run.thread_id, run.tenant) == ("turnfleet.f", 7, "t", "acme")
    assert (run.eta_ms, run.expires_ms, run.metadata) == (1500, 2250, {"a": 1})
    assert (first_offer(run).number, first_offer(run).plan_name) == (1, "p")


def test_a_later_message_carries_no_plan_and_makes_no_record() -> None:
    """The record's plan wins over any message's, so a re-offer has none (DESIGN 1)."""
    again = reoffer("f", Offer("r", 2, "q", 5, None, "0" * 64, "1" * 64, "p"))
    assert (again.recorded, again.plan, again.request, again.digest) == (True, None, None, "1" * 64)
    assert parse_envelope(again.to_json()) == again
    with pytest.raises(InvalidEnvelope, match="no plan and request"):
        new_run(again)


def test_task_ids_count_up_from_the_runs_own() -> None:
    """The first is the run's id, so that Flower finds a run by it."""
    assert [task_id("r", number) for number in (1, 2, 3)] == ["r", "r:2", "r:3"]


def test_both_wings_share_the_brokers_settings() -> None:
    """JSON only, no results, and names that carry the fleet's (DESIGN 7)."""
    settings = celery_settings("f", "redis://localhost/0")
    assert settings["accept_content"] == ["json"]
    assert (settings["task_serializer"], settings["result_backend"]) == ("json", None)
    assert settings["task_default_queue"] == "turnfleet.f"
    assert settings["control_exchange"] == "turnfleet.f.control"
    assert settings["event_exchange"] == "turnfleet.f.events"
    assert settings["broker_transport_options"]["priority_steps"] == list(range(10))


def test_priorities_are_mapped_per_transport() -> None:
    """On AMQP 9 is first, as it is for users; a message without a priority stands in the middle on both."""
    assert celery_settings("f", "redis://localhost/0")["task_default_priority"] == 4
    amqp = celery_settings("f", "amqp://localhost//")
    assert (amqp["task_default_priority"], amqp["task_queue_max_priority"]) == (5, 10)
    assert "priority_steps" not in amqp["broker_transport_options"]


def test_values_are_frozen() -> None:
    """What was checked cannot change before it is sent."""
    with pytest.raises(ValueError, match="frozen"):
        parse_envelope(FOREIGN).run_id = "other"
    with pytest.raises(ValueError, match="frozen"):
        RunOptions().priority = 9
    assert Envelope.model_config["extra"] == "forbid"
