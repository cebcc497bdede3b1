"""Events: frozen, in one order, to the sink first, and through JSON unharmed."""

import asyncio
import copy
import json
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel.kit import ASK, indices, walk

from turnfleet_kernel import (
    Delta,
    Interrupt,
    InvocationKernel,
    KernelEvent,
    ModelTurn,
    Phase,
    RunIdentity,
    Stage,
    StageTrace,
    TurnRequest,
    UsageDelta,
)
from turnfleet_kernel.contracts.events import EventKind
from turnfleet_kernel.contracts.json import event_from_json, event_to_json
from turnfleet_kernel.contracts.values import InvocationOutcome, ToolOutcome
from turnfleet_kernel.testing import ManualClock, RecordingSink, call, make_plan

NOON = datetime(2024, 5, 1, 12, 0, 0, 123456, tzinfo=UTC)


def test_an_event_is_frozen_and_says_what_it_carries() -> None:
    """Its payload is its attributes; a wrong name is told by the kind (EVT-1)."""
    event = KernelEvent("r", 0, "text_delta", NOON, {"text": "hi"})
    assert event.text == "hi"
    with pytest.raises(FrozenInstanceError):
        event.index = 1  # type: ignore[misc]
    with pytest.raises(AttributeError, match="a 'text_delta' event has no 'trace'; it carries text"):
        _ = event.trace
    assert copy.deepcopy(event) == event


async def test_the_clock_of_the_plan_dates_events() -> None:
    """Aware UTC from the clock port (EVT-1)."""
    clock = ManualClock(NOON)
    seen = await walk(make_plan(["x"], clock=clock))
    assert {event.time for event in seen.events} == {NOON}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
usages = st.builds(UsageDelta, st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
outcomes = st.builds(ToolOutcome, st.text(), st.text(), json_values, st.none() | st.text(), st.just(1.5), usages)
interrupts = st.builds(
    Interrupt,
    st.text(),
    st.sampled_from(["approval", "question", "in_doubt"]),
    st.dictionaries(st.text(), json_values, max_size=2),
    st.none() | st.text(),
)
ends = st.builds(
    InvocationOutcome,
    st.text(),
    json_values,
    st.tuples(json_values),
    st.tuples(outcomes),
    usages,
    st.text(),
    st.just(2.0),
    st.none() | st.text(),
)
payloads = st.one_of(
    st.tuples(st.just("text_delta"), st.fixed_dictionaries({"text": st.text()})),
    st.tuples(st.just("tool_result"), st.fixed_dictionaries({"call_id": st.text(), "outcome": outcomes})),
    st.tuples(st.just("usage"), st.fixed_dictionaries({"usage": usages, "total": usages, "round": st.just(1)})),
    st.tuples(
        st.just("approval"), st.fixed_dictionaries({"interrupt": interrupts, "interrupts": st.tuples(interrupts)})
    ),
    st.tuples(st.just("done"), st.fixed_dictionaries({"outcome": ends})),
    st.tuples(st.just("progress"), st.fixed_dictionaries({"call_id": st.text(), "value": json_values})),
    st.tuples(st.just("stage"), st.just({"trace": StageTrace("s", "pre-tool", "ok", 0.5)})),
    st.tuples(st.just("rewind"), st.just({"to_index": 4})),
    st.tuples(st.just("newer"), st.fixed_dictionaries({"something": json_values})),
)


@given(payloads, st.datetimes(datetime(2020, 1, 1), datetime(2060, 1, 1)))  # noqa: DTZ001 - made aware below
def test_events_survive_json(kind_and_payload: tuple[EventKind, dict[str, Any]], time: datetime) -> None:
    """What goes out comes back equal, kinds of a newer sender included (EVT-1)."""
    kind, payload = kind_and_payload
    event = KernelEvent("r", 3, kind, time.replace(tzinfo=UTC), payload)
    assert event_from_json(json.loads(json.dumps(event_to_json(event)))) == event
    nested = KernelEvent("root", 9, "child", NOON, {"run_id": "r", "parent_run_id": "root", "event": event})
    assert event_from_json(json.loads(json.dumps(event_to_json(nested)))) == nested


# -- the sink


class Slow(RecordingSink):
    """A sink that takes its time."""

    async def deliver(self, event: KernelEvent) -> None:
        """Keep the event after a moment."""
        await asyncio.sleep(0.001)
        await super().deliver(event)


async def test_the_sink_sees_each_event_first(kernel: InvocationKernel) -> None:
    """Before the consumer, all of them, in order (EVT-5)."""
    sink = Slow()
    plan = make_plan([call("add", a=1), "one two"], tools={"add": lambda a: a}, sink=sink)
    async for event in kernel.stream(plan, ASK):
        assert sink.events[-1] == event


async def test_a_sink_is_bound_to_the_run_before_its_first_event(kernel: InvocationKernel) -> None:
    """With the identity and the request's metadata; closed at teardown (EVT-9)."""
    sink = RecordingSink()
    await kernel.run(make_plan(["x"], sink=sink), TurnRequest("p", run_id="r", metadata={"tenant": "t"}))
    assert (sink.bound, sink.closed) == ([(RunIdentity.root("r"), {"tenant": "t"})], 1)


async def test_a_sink_that_raises_breaks_no_run() -> None:
    """It is recorded (EVT-5, RCX-11)."""

    class Broken:
        async def deliver(self, event: KernelEvent) -> None:
            raise ConnectionError(f"lost {event.index}")

    seen = await walk(make_plan(["x"], sink=Broken()))
    assert (seen.raised, seen.kinds) == (None, ["text_delta", "usage", "done"])
    assert seen.report.sink_failures[0] == "sink: text_delta 0: ConnectionError: lost 0"
    assert len(seen.report.sink_failures) == 3


async def test_a_sink_that_cannot_be_bound_breaks_no_run() -> None:
    """The run goes on without it (EVT-5, EVT-9)."""

    class Unbindable(RecordingSink):
        def bind(self, identity: Any, metadata: Any) -> RecordingSink:
            raise ValueError("no room")

    seen = await walk(make_plan(["x"], sink=Unbindable()))
    assert (seen.raised, seen.report.sink_failures) == (None, ("sink: bind: ValueError: no room",))


async def test_a_sink_that_hangs_holds_no_run_open() -> None:
    """At the terminal event it has the grace and no more (EVT-10)."""

    class Hangs(RecordingSink):
        async def deliver(self, event: KernelEvent) -> None:
            if event.kind == "done":
                await asyncio.Event().wait()
            await super().deliver(event)

    seen = await walk(make_plan(["x"], sink=Hangs(), teardown_grace_seconds=0.02))
    assert seen.kinds[-1] == "done"
    assert seen.report.sink_failures == ("sink: did not take the last events within the grace",)
    assert seen.report.reason == "completed"


async def test_an_event_that_was_made_reaches_the_consumer() -> None:
    """Although its delivery was cut off by the deadline; the next step raises (EVT-5)."""

    class Stalls(RecordingSink):
        async def deliver(self, event: KernelEvent) -> None:
            if event.kind == "text_delta":
                await asyncio.Event().wait()
            await super().deliver(event)

    sink = Stalls()
    seen = await walk(make_plan(["one two"], sink=sink, deadline_seconds=1))
    assert [event.kind for event in seen.events] == ["text_delta", "error"]
    assert (seen.report.reason, sink.kinds) == ("deadline", ["error"])
    assert indices(seen) == [0, 1]


async def test_a_slow_consumer_slows_the_run() -> None:
    """Nothing is produced ahead of it (EVT-8)."""
    produced: list[str] = []

    class Model:
        async def invoke(self, transcript: Any) -> Any:
            raise AssertionError("deltas were asked for")

        def stream(self, transcript: Any) -> Any:
            return self

        async def deltas(self) -> Any:
            for number in range(5):
                produced.append(str(number))
                yield Delta("text", str(number))

        def result(self) -> Any:
            return ModelTurn("01234")

    taken = 0
    async for event in InvocationKernel().stream(make_plan(Model()), ASK):
        if event.kind == "text_delta":
            taken += 1
            await asyncio.sleep(0)
            assert len(produced) == taken


async def test_a_round_that_cost_nothing_has_no_usage_event() -> None:
    """One a round, if not zero (EVT-3, EVT-12)."""
    seen = await walk(make_plan([ModelTurn("free")]))
    assert seen.kinds == ["text_delta", "done"]


def test_times_keep_their_microseconds() -> None:
    """Unix seconds as a float carry them (EVT-1)."""
    for offset in range(1000):
        time = NOON + timedelta(microseconds=offset * 977, days=offset)
        event = KernelEvent("r", 0, "cancelled", time, {"reason": "x"})
        assert event_from_json(event_to_json(event)).time == time


async def test_a_spent_deadline_makes_no_hole_at_the_sink() -> None:
    """An event made when the time is up already is delivered all the same, then the run ends (EVT-5, EVT-10)."""
    clock, sink = ManualClock(), RecordingSink()
    stage = Stage("slow", Phase.PRE_MODEL, lambda _: clock.advance(11))
    seen = await walk(make_plan(["never"], stages=[stage], sink=sink, clock=clock, deadline_seconds=10))
    assert [event.kind for event in seen.events] == ["stage", "error"]
    assert (sink.events, seen.report.sink_failures, seen.report.reason) == (seen.events, (), "deadline")
