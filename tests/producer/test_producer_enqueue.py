"""Enqueueing: the record first, then one message, and the same run for the same request (DESIGN 1, 7)."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from producer.kit import PLAN, AnyFleet, Stage, body, do

from turnfleet import FleetUnavailable, InvalidEnvelope, InvalidId, PayloadTooLarge, RunIdConflict, TurnRequest
from turnfleet.store import commands


async def test_a_run_is_recorded_and_its_message_published(fleet: AnyFleet, stage: Stage) -> None:
    """The handle names a queued run, and the broker has one message of its id."""
    run = await do(fleet.enqueue, PLAN, "Refund order 1001")
    assert (await do(run.status)).state == "queued"
    assert stage.published() == [run.run_id]


async def test_the_message_is_plain_celery_protocol_and_hides_the_prompt(fleet: AnyFleet, stage: Stage) -> None:
    """Protocol 2, JSON, the run's id as task id; what Flower and logs show holds no prompt (DESIGN 7)."""
    await do(fleet.enqueue, PLAN, "my secret prompt", run_id="run-1")
    (message,) = stage.messages()
    assert message["content-type"] == "application/json"
    headers = message["headers"]
    assert headers["task"] == "turnfleet.invoke"
    assert headers["id"] == headers["root_id"] == "run-1"
    assert (headers["argsrepr"], headers["kwargsrepr"]) == ("()", "{'plan': 'support', 'turn': 1, 'run_id': 'run-1'}")
    assert headers["shadow"] == "support (turn 1)"
    assert "secret" not in str(message["headers"]) + str(message["properties"])
    assert (headers["eta"], headers["expires"], headers["ignore_result"]) == (None, None, True)
    args, kwargs, _ = body(message)
    assert args == []
    envelope = kwargs["envelope"]
    assert (envelope["v"], envelope["fleet"], envelope["run_id"]) == (1, stage.fleet, "run-1")
    assert envelope["recorded"] is True
    assert envelope["plan"] == {"name": "support", "model": "small"}
    assert envelope["request"] == {"prompt": "my secret prompt"}


async def test_the_same_request_under_the_same_id_is_one_run(fleet: AnyFleet, stage: Stage) -> None:
    """Enqueueing again gives the same handle, publishes nothing, and changes nothing."""
    first = await do(fleet.enqueue, PLAN, "hi", run_id="run-1")
    before = stage.dump("run-1")
    again = await do(fleet.enqueue, PLAN, TurnRequest("hi", run_id="run-1"), metadata={"trace": "2"})
    assert first.run_id == again.run_id == "run-1"
    assert stage.dump("run-1") == before


async def test_another_request_under_the_same_id_is_a_conflict(fleet: AnyFleet, stage: Stage) -> None:
    """The error names the run, and the first request stands."""
    await do(fleet.enqueue, PLAN, "hi", run_id="run-1")
    before = stage.dump("run-1")
    with pytest.raises(RunIdConflict, match="run-1"):
        await do(fleet.enqueue, PLAN, "something else", run_id="run-1")
    assert stage.dump("run-1") == before


async def test_twenty_producers_of_one_run_publish_once(fleet: AnyFleet, stage: Stage) -> None:
    """Whoever is first publishes; the others find the run."""
    await asyncio.gather(*(do(fleet.enqueue, PLAN, "hi", run_id="run-1") for _ in range(20)))
    assert stage.published() == ["run-1"]


async def test_priority_nine_goes_first_on_redis(fleet: AnyFleet, stage: Stage) -> None:
    """Kombu's Redis serves level 0 first, so 9 becomes 0 (DESIGN 7)."""
    for priority in (0, 9, 5):
        await do(fleet.enqueue, PLAN, "hi", run_id=f"p{priority}", priority=priority)
    assert stage.published() == ["p9", "p5", "p0"]
    assert [message["properties"]["priority"] for message in stage.messages()] == [0, 4, 9]


async def test_a_queue_of_ones_own_is_used_as_typed(fleet: AnyFleet, stage: Stage) -> None:
    """The message goes there, and the record says so for later offers."""
    run = await do(fleet.enqueue, PLAN, "hi", queue=f"gpu-{stage.fleet}")
    assert stage.published(f"gpu-{stage.fleet}") == [run.run_id]
    assert (await do(run.status)).queue == f"gpu-{stage.fleet}"


async def test_what_was_asked_for_is_kept_with_the_run(fleet: AnyFleet) -> None:
    """Tenant, metadata, deadline and the life's end come back in the status."""
    ends = datetime.now(UTC) + timedelta(hours=1)
    run = await do(
        fleet.enqueue, PLAN, "hi", tenant="acme", metadata={"a": [1]}, deadline_seconds=2.5, expires=ends, priority=7
    )
    status = await do(run.status)
    assert (status.tenant, status.metadata, status.deadline_seconds, status.priority) == ("acme", {"a": [1]}, 2.5, 7)
    assert status.expires_at is not None
    assert abs(status.expires_at - ends) < timedelta(milliseconds=2)


@pytest.mark.parametrize("later", [{"countdown": 60}, {"countdown": timedelta(minutes=1)}])
async def test_a_countdown_counts_by_the_fleets_clock_and_is_not_published(
    fleet: AnyFleet, stage: Stage, later: dict[str, Any]
) -> None:
    """The record's due index holds it; Celery would keep it in some worker's memory (DESIGN 7)."""
    run = await do(fleet.enqueue, PLAN, "hi", **later)
    status = await do(run.status)
    assert stage.published() == []
    assert status.eta is not None
    # The record is written a moment after the clock was asked.
    assert 30 < (status.eta - status.created_at).total_seconds() < 60.01


async def test_an_eta_ahead_is_not_published_and_one_behind_is(fleet: AnyFleet, stage: Stage) -> None:
    """`eta` says not before."""
    now = datetime.now(UTC)
    await do(fleet.enqueue, PLAN, "hi", run_id="later", eta=now + timedelta(hours=1))
    await do(fleet.enqueue, PLAN, "hi", run_id="now", eta=now - timedelta(hours=1))
    assert stage.published() == ["now"]


@pytest.mark.parametrize("expires", [60, timedelta(minutes=1)])
async def test_expires_as_a_span_counts_from_the_fleets_now(fleet: AnyFleet, expires: Any) -> None:
    """Seconds and timedeltas mean the same."""
    status = await do((await do(fleet.enqueue, PLAN, "hi", expires=expires)).status)
    assert status.expires_at is not None
    # The record is written a moment after the clock was asked.
    assert 30 < (status.expires_at - status.created_at).total_seconds() < 60.01


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"eta": datetime(2030, 1, 1)}, "time zone"),  # noqa: DTZ001 - that is the point
        ({"expires": datetime(2030, 1, 1)}, "time zone"),  # noqa: DTZ001
        ({"eta": 5}, "eta is a datetime"),
        ({"countdown": -1}, "countdown"),
        ({"countdown": float("nan")}, "countdown"),
        ({"countdown": 1, "eta": datetime(2030, 1, 1, tzinfo=UTC)}, "one of them"),
        ({"priority": 10}, "priority"),
        ({"priority": True}, "priority: Input should be a valid integer"),
        ({"priority": "9"}, "priority: Input should be a valid integer"),
        ({"deadline_seconds": "5"}, "deadline_seconds: Input should be a valid number"),
        ({"deadline_seconds": 0}, "deadline_seconds"),
        ({"queue": ""}, "queue"),
        ({"double_text": "shout"}, "double_text"),
        ({"metadata": {"x": object()}}, "metadata.x"),
        ({"metadata": {"x": float("inf")}}, "metadata.x"),
        ({"countdown": 1e300}, "countdown lies behind the year 9999"),
        ({"expires": 1e12}, "expires lies behind the year 9999"),
    ],
)
async def test_an_option_that_makes_no_sense_is_refused_by_name(
    fleet: AnyFleet, stage: Stage, options: dict[str, Any], says: str
) -> None:
    """Nothing is recorded or published."""
    with pytest.raises(InvalidEnvelope, match=says):
        await do(fleet.enqueue, PLAN, "hi", run_id="run-1", **options)
    assert stage.dump("run-1") == {"record": {}, "journal": [], "events": [], "interrupts": {}, "messages": []}


@pytest.mark.parametrize("option", ["run_id", "thread_id", "tenant"])
@pytest.mark.parametrize("bad", ["", "a b", "a/b", "{a}", "x" * 201, "ü"])
async def test_an_id_that_keys_cannot_carry_is_refused_by_name(fleet: AnyFleet, option: str, bad: str) -> None:
    """Run ids, thread ids and tenants share one rule."""
    with pytest.raises(InvalidId, match=option.replace("_", " ")):
        await do(fleet.enqueue, PLAN, "hi", **{option: bad})


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        ("half a pair: \ud800", "prompt"),
        (TurnRequest("hi", attachments=(object(),)), "attachments"),
        (TurnRequest("hi", decisions={"x": None}), "decisions"),  # type: ignore[dict-item]
        (TurnRequest("hi", run_id="other"), "other"),
        (b"hi", "bytes"),
    ],
)
async def test_a_request_that_cannot_travel_is_refused(fleet: AnyFleet, request_: Any, says: str) -> None:
    """The error names the part and shows no content."""
    with pytest.raises(InvalidEnvelope, match=says) as refused:
        await do(fleet.enqueue, PLAN, request_, run_id="run-1")
    assert "half a pair" not in str(refused.value)


async def test_what_is_too_large_is_refused_with_size_and_limit(fleet: AnyFleet, stage: Stage) -> None:
    """The prompt, the attachments, and the message as a whole have limits of their own."""
    with pytest.raises(PayloadTooLarge, match="the prompt is 1048577 bytes, the limit is 1048576"):
        await do(fleet.enqueue, PLAN, "x" * (1024 * 1024 + 1), run_id="run-1")
    with pytest.raises(PayloadTooLarge, match="attachments"):
        await do(fleet.enqueue, PLAN, TurnRequest("hi", attachments=("x" * 5_000_000,)), run_id="run-1")
    with pytest.raises(PayloadTooLarge, match="the message"):
        await do(fleet.enqueue, PLAN, TurnRequest("hi", history=("x" * 9_000_000,)), run_id="run-1")
    assert stage.dump("run-1")["record"] == {}


async def test_two_hundred_runs_are_enqueued_at_once(fleet: AnyFleet, stage: Stage) -> None:
    """`enqueue_many` takes pairs and mappings, records them together, and publishes each once, in order."""
    pairs: list[Any] = [(PLAN, f"n{place}") for place in range(100)]
    named: list[Any] = [{"plan": PLAN, "request": "hi", "run_id": f"run-{place}"} for place in range(100)]
    runs = await do(fleet.enqueue_many, pairs + named)
    assert stage.published() == [run.run_id for run in runs]
    assert len({run.run_id for run in runs}) == 200
    assert [run.run_id for run in runs[100:]] == [f"run-{place}" for place in range(100)]


async def test_enqueue_many_refuses_a_wrong_item_before_any_is_recorded(fleet: AnyFleet, stage: Stage) -> None:
    """One bad priority, and nothing happened."""
    with pytest.raises(InvalidEnvelope, match="priority"):
        await do(fleet.enqueue_many, [(PLAN, "hi"), {"plan": PLAN, "request": "hi", "priority": 11}])
    assert stage.published() == []


async def test_enqueue_many_raises_a_conflict_after_the_others_were_enqueued(fleet: AnyFleet, stage: Stage) -> None:
    """A conflict is about one run; the others go their way, and those that existed are not published again."""
    await do(fleet.enqueue, PLAN, "hi", run_id="taken")
    items: list[Any] = [{"plan": PLAN, "request": "other", "run_id": each} for each in ("a", "taken", "b")]
    with pytest.raises(RunIdConflict, match="taken"):
        await do(fleet.enqueue_many, items)
    assert stage.published() == ["taken", "a", "b"]


async def test_enqueue_many_again_publishes_only_what_is_new(fleet: AnyFleet, stage: Stage) -> None:
    """Trying a list again after a lost connection is safe: the same requests give the same runs."""
    items: list[Any] = [{"plan": PLAN, "request": "hi", "run_id": each} for each in "abc"]
    await do(fleet.enqueue_many, items[:2])
    await do(fleet.enqueue_many, items)
    assert stage.published() == ["a", "b", "c"]


async def test_enqueue_many_of_nothing_is_nothing(fleet: AnyFleet) -> None:
    """An empty list needs no special care from callers."""
    assert await do(fleet.enqueue_many, []) == []


async def test_a_record_whose_message_could_not_be_published_is_kept(
    fleet: AnyFleet, another: Callable[..., AnyFleet], stage: Stage
) -> None:
    """The error says that the run may be enqueued; enqueueing again gives that run (DESIGN 1: the sweep offers it)."""
    broken = another(broker_url="redis://127.0.0.1:1/0", timeout=5)
    with pytest.raises(FleetUnavailable) as lost:
        await do(broken.enqueue, PLAN, "hi", run_id="run-1")
    assert (lost.value.run_id, lost.value.maybe_enqueued) == ("run-1", True)
    assert stage.executor.execute(commands.status(stage.keys, "run-1")).state == "queued"
    assert (await do(fleet.enqueue, PLAN, "hi", run_id="run-1")).run_id == "run-1"
