"""What a caller without a type checker hands in is refused by the argument's name; nothing is asked, sent or kept."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from producer.kit import APPROVAL, PLAN, AnyFleet, Stage, do

from turnfleet import Approve, AsyncFleet, Fleet, InvalidAddress, InvalidDecision, InvalidEnvelope, PlanSpec, Reject


@pytest.mark.parametrize("kind", [Fleet, AsyncFleet])
@pytest.mark.parametrize(
    ("url", "says"),
    [
        (None, "is the variable that should hold it unset"),
        (b"redis://localhost", "a URL is text"),
        ("", "the URL makes no sense"),
        ("localhost:6379", "the URL makes no sense"),
        ("redis://[localhost", "the URL makes no sense"),
        ("redis://localhost:port", "the URL makes no sense"),
        ("redis+sentinel://localhost", "a Sentinel URL reads"),
    ],
)
def test_an_address_that_is_none_is_refused_at_once(kind: type[AnyFleet], url: Any, says: str) -> None:
    """An unset variable is no Redis on this machine."""
    with pytest.raises(InvalidAddress, match=says):
        kind(url)


@pytest.mark.parametrize(
    ("plan", "request_", "says"),
    [
        ("desk", "hi", "a plan is a PlanSpec, or a mapping of its fields, not a str"),
        (None, "hi", "not a NoneType"),
        ({"name": "desk", "modl": "m"}, "hi", "model: Field required; modl: Extra inputs"),
        (PLAN, {"prompt": "hi"}, "a request is a prompt"),
    ],
)
async def test_what_is_no_plan_or_request_is_refused(fleet: AnyFleet, plan: Any, request_: Any, says: str) -> None:
    """The error says what would be one."""
    with pytest.raises(InvalidEnvelope, match=says):
        await do(fleet.enqueue, plan, request_)


async def test_an_option_that_there_is_not_is_named_with_those_that_there_are(fleet: AnyFleet) -> None:
    """By the name of the function that was called, in both of its forms."""
    says = r"enqueue takes no prio; its options are .*output, priority"
    with pytest.raises(TypeError, match=says):
        await do(fleet.enqueue, PLAN, "hi", prio=9)
    with pytest.raises(TypeError, match=says):
        await do(fleet.enqueue_many, [{"plan": PLAN, "request": "hi", "prio": 9}])


@pytest.mark.parametrize(
    ("item", "says"),
    [
        (PLAN, "is a pair"),
        ((PLAN, "hi", {}), "is a pair"),
        ({"plan": PLAN}, "lacks request"),
    ],
)
async def test_an_item_of_many_that_is_none_is_refused(fleet: AnyFleet, item: Any, says: str) -> None:
    """With what one looks like."""
    with pytest.raises(InvalidEnvelope, match=says):
        await do(fleet.enqueue_many, [(PLAN, "hi"), item])


@pytest.mark.parametrize("output", [5, "Invoice", lambda: 3, Iterator[object]])
async def test_an_output_that_is_no_type_is_refused(fleet: AnyFleet, output: Any) -> None:
    """Before the run is recorded, not when it has been paid for."""
    with pytest.raises(TypeError, match="output="):
        await do(fleet.enqueue, PLAN, "hi", output=output)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"limit": 0}, ValueError, "limit= is 1 or more"),
        ({"limit": -1}, ValueError, "limit= is 1 or more"),
        ({"limit": "5"}, TypeError, "limit= is a whole number"),
        ({"tenant": ["acme"]}, TypeError, "tenant= is one name"),
    ],
)
async def test_a_page_that_makes_no_sense_is_refused(
    fleet: AnyFleet, options: Any, error: type[Exception], says: str
) -> None:
    """Redis would read -1 as "all of them"."""
    for listing in (fleet.runs, fleet.interrupts):
        with pytest.raises(error, match=says):
            await do(listing, **options)


async def test_several_roles_are_no_role(fleet: AnyFleet) -> None:
    """An inbox that is empty for want of a role of that name would look like one with nothing to do."""
    with pytest.raises(TypeError, match="role= is one name"):
        await do(fleet.interrupts, role=["finance"])


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"after": None}, TypeError, "after= is the index of the last event that you had, or -1"),
        ({"after": "3"}, TypeError, "after= is the index"),
        ({"until": "forever"}, ValueError, "until= is 'terminal' or 'pause'"),
        ({"timeout": "5"}, TypeError, "timeout= is a number of seconds"),
    ],
)
async def test_reading_that_makes_no_sense_is_refused(
    fleet: AnyFleet, options: Any, error: type[Exception], says: str
) -> None:
    """Also of a run that has ended, where nothing would have to be waited for."""
    run = await do(fleet.enqueue, PLAN, "hi")
    await do(run.cancel)
    events: Any = run.events(**options)
    with pytest.raises(error, match=says):
        await anext(events) if isinstance(events, AsyncIterator) else next(events)


@pytest.mark.parametrize(
    ("decisions", "options", "says"),
    [
        (Approve(), {}, "resume takes decisions by the ids of their interrupts"),
        ([Approve()], {}, "resume takes decisions by the ids"),
        ({5: Approve()}, {}, "resume takes decisions by the ids"),
        ({APPROVAL.id: Approve()}, {"by": None}, "by= is the name of who decides"),
        ({APPROVAL.id: Approve()}, {"by": ""}, "by= is the name of who decides"),
        ({APPROVAL.id: Approve()}, {"roles": "finance"}, "roles= is a sequence of role names"),
        ({APPROVAL.id: Approve()}, {"roles": None}, "roles= is a sequence of role names"),
        ({APPROVAL.id: Approve()}, {"shown": "digest"}, "shown= is a mapping"),
    ],
)
async def test_a_decider_that_makes_no_sense_is_refused(
    fleet: AnyFleet, stage: Stage, decisions: Any, options: Any, says: str
) -> None:
    """A role given as plain text is not read letter by letter; nothing is decided."""
    run = await do(fleet.enqueue, PLAN, "hi")
    stage.pauses(stage.claim(run.run_id), APPROVAL)
    with pytest.raises(TypeError, match=says):
        await do(run.resume, decisions, **options)
    assert (await do(run.status)).state == "paused"


async def test_a_reason_that_is_no_text_is_refused(fleet: AnyFleet, stage: Stage) -> None:
    """Recorded, it would be a decision that nobody can read: not the worker, and not `status()`."""
    run = await do(fleet.enqueue, PLAN, "hi")
    stage.pauses(stage.claim(run.run_id), APPROVAL)
    with pytest.raises(InvalidDecision, match="the reason must be text"):
        await do(run.resume, {APPROVAL.id: Reject(5)})  # type: ignore[arg-type]
    assert [each.open for each in await do(run.interrupts)] == [True]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"tools": "refund"}, r"tools\n.*names come as a sequence, also a single one: \('refund',\)"),
        ({"tools": [do]}, r"tools\n.*do is given by the name that it is registered under"),
        ({"delegates": "research"}, r"delegates\n.*names come as a sequence"),
        ({"response": int}, r"response\n.*it is a JSON Schema: enqueue with output=int"),
    ],
)
def test_a_plan_says_what_it_takes_instead(fields: dict[str, Any], says: str) -> None:
    """For what is often given: one name, the function itself, the type of the answer."""
    with pytest.raises(ValueError, match=says):
        PlanSpec.model_validate({"name": "p", "model": "m", **fields})
