"""What the holder of a claim writes: journal and events in one go, in order, once (DESIGN 2, 3)."""

import json
from typing import Any

import pytest
from store.kit import Bench, ending, event

from turnfleet.errors import ClaimLost, StepGap, UnknownRun
from turnfleet.store import commands
from turnfleet.store.records import Ended, Offer, StepAck


async def test_a_step_appends_to_journal_and_log_together(bench: Bench) -> None:
    """What was written comes back as it was: empty lists stay lists, text stays text."""
    claim = await bench.running()
    entry = {"k": "turn", "n": 1, "calls": [], "text": 'ünï "q" 😀 \ud83d', "arguments": {}}
    events = [event("run", 0, "text_delta", text="ü"), event("run", 1, "usage", usage={})]
    assert StepAck(None) == await bench(commands.step(bench.keys, claim, seq=1, entries=[entry], events=events))
    assert [entry] == [json.loads(each) for each in await bench.journal()]
    assert tuple(events) == (await bench(commands.read_events(bench.keys, "run"))).events


async def test_the_same_step_twice_is_written_once(bench: Bench) -> None:
    """A step whose reply was lost is sent again with the same seq."""
    claim = await bench.running()
    step = commands.step(bench.keys, claim, seq=1, entries=[{"k": "turn"}], events=[event("run", 0, "usage")])
    await bench(step)
    before = await bench.dump()
    assert StepAck(None) == await bench(step)
    assert before == await bench.dump()


@pytest.mark.parametrize("seq", [-1, 0, 2, 3])
async def test_a_step_that_does_not_follow_is_refused(bench: Bench, seq: int) -> None:
    """Neither ahead of what the store has nor far behind it."""
    claim = await bench.running()
    await bench(commands.step(bench.keys, claim, seq=1))
    await bench(commands.step(bench.keys, claim, seq=2))
    before = await bench.dump()
    wrong = seq if seq < 2 else seq + 2
    with pytest.raises(StepGap) as gap:
        await bench(commands.step(bench.keys, claim, seq=wrong, entries=[{"k": "turn"}]))
    assert ("seq", 3, wrong) == (gap.value.counter, gap.value.expected, gap.value.given)
    assert before == await bench.dump()


async def test_event_indexes_have_no_hole(bench: Bench) -> None:
    """EVT-2: a hole inside a batch cannot be written down, one between batches is refused."""
    claim = await bench.running()
    with pytest.raises(ValueError, match="without a hole"):
        commands.step(bench.keys, claim, seq=1, events=[event("run", 0, "usage"), event("run", 2, "usage")])
    before = await bench.dump()
    with pytest.raises(StepGap, match="index 1"):
        await bench(commands.step(bench.keys, claim, seq=1, events=[event("run", 1, "usage")]))
    with pytest.raises(StepGap, match="index 7"):
        await bench(commands.finish(bench.keys, claim, seq=1, ending=ending("run", 7)))
    assert before == await bench.dump()


async def test_no_effect_starts_after_a_cancel(bench: Bench) -> None:
    """The step that would journal a tool's start is refused; other steps still save what was done (DESIGN 5)."""
    claim = await bench.running()
    await bench(commands.cancel(bench.keys, "run", reason="stop"))
    before = await bench.dump()
    start = commands.step(bench.keys, claim, seq=1, entries=[{"k": "start", "id": "c1"}], starts_effect=True)
    assert StepAck("stop") == await bench(start)
    assert before == await bench.dump()
    assert StepAck("stop") == await bench(commands.step(bench.keys, claim, seq=1, entries=[{"k": "receipt"}]))
    assert len(await bench.journal()) == 1


async def test_no_effect_starts_after_the_expiry(bench: Bench) -> None:
    """`expires` bounds the whole life, also when no sweep has noticed yet."""
    claim = await bench.running()
    await bench.look.hset(bench.keys.record("run"), "expires", "1")
    start = commands.step(bench.keys, claim, seq=1, entries=[{"k": "start"}], starts_effect=True)
    assert StepAck("expires passed") == await bench(start)
    assert await bench.journal() == []


async def test_a_run_whose_record_is_gone_is_lost(bench: Bench) -> None:
    """A write cannot bring a deleted run back."""
    claim = await bench.failed()
    await bench(commands.delete(bench.keys, "run"))
    with pytest.raises(ClaimLost) as lost:
        await bench(commands.step(bench.keys, claim, seq=2, entries=[{"k": "turn"}]))
    assert (lost.value.state, await bench.dump()) == ("", {})


async def test_losses_count_since_the_journal_last_moved(bench: Bench) -> None:
    """A tool's start is no progress; anything else in the journal is (DESIGN 1, "Attempts")."""
    await bench.running(lease_ms=0)
    await bench.sweep()
    claim = await bench.claim(lease_ms=0)
    await bench(commands.step(bench.keys, claim, seq=1, entries=[{"k": "start"}], events=[event("run", 0, "usage")]))
    assert (await bench.status()).losses == 1
    await bench(commands.step(bench.keys, claim, seq=2, entries=[{"k": "receipt"}]))
    assert (await bench.status()).losses == 0


async def test_a_hand_back_costs_nothing_and_offers_the_run_again(bench: Bench) -> None:
    """CXL-7: queued at once, the next message has the next number, the next claim goes on where this one stopped."""
    await bench.running(lease_ms=0)
    await bench.sweep()
    claim = await bench.claim()
    release = commands.release(bench.keys, claim, seq=1, events=[event("run", 0, "usage")])
    offer = await bench(release)
    assert isinstance(offer, Offer)
    assert (
        offer.run_id, offer.number, offer.queue, offer.priority, offer.plan_name,
    ) == ("run", 3, "turnfleet.test", 5, "support")  # fmt: skip
    assert offer == await bench(release)
    again = await bench.claim()
    assert (again.losses, again.previous, again.next_index, again.seq) == (1, "released", 1, 1)


@pytest.mark.parametrize("recorded", ["cancelled", "expired"])
async def test_a_hand_back_of_a_run_that_shall_end_ends_it(bench: Bench, recorded: str) -> None:
    """Nobody need claim it once more only to end it."""
    claim = await bench.running()
    if recorded == "cancelled":
        await bench(commands.cancel(bench.keys, "run", reason="stop"))
    else:
        await bench.look.hset(bench.keys.record("run"), "expires", "1")
    assert Ended(recorded) == await bench(commands.release(bench.keys, claim, seq=1))
    assert [recorded] == await bench.kinds()


@pytest.mark.parametrize("recorded", ["cancelled", "expired"])
async def test_a_run_that_shall_end_is_not_parked(bench: Bench, recorded: str) -> None:
    """Nobody need wait for a worker only to end it."""
    claim = await bench.running()
    if recorded == "cancelled":
        await bench(commands.cancel(bench.keys, "run", reason="stop"))
    else:
        await bench.look.hset(bench.keys.record("run"), "expires", "1")
    park = commands.park(bench.keys, claim, missing={}, text="")
    assert Ended(recorded) == await bench(park)
    assert [recorded] == await bench.kinds()


async def test_the_journal_can_be_read_back(bench: Bench) -> None:
    """As it was written, in order; of an unknown run, there is none to read."""
    claim = await bench.running()
    entries: list[dict[str, Any]] = [{"k": "turn", "calls": []}, {"k": "start", "id": "c1"}]
    await bench(commands.step(bench.keys, claim, seq=1, entries=entries))
    assert tuple(entries) == await bench(commands.journal(bench.keys, "run"))
    with pytest.raises(UnknownRun):
        await bench(commands.journal(bench.keys, "nobody"))


async def test_parking_says_what_is_missing_until_a_worker_fits(bench: Bench) -> None:
    """DESIGN 5: the run goes on as what it was; what was missing is forgotten."""
    claim = await bench.running()
    park = commands.park(bench.keys, claim, missing={"tool": ["refund"]}, text="no live worker has tool 'refund'")
    assert Ended("parked") == await bench(park)
    assert Ended("parked") == await bench(park)
    parked = await bench.status()
    assert (parked.missing, parked.parked) == ({"tool": ("refund",)}, "no live worker has tool 'refund'")
    offer = await bench(commands.unpark(bench.keys, "run"))
    assert offer is not None
    after = await bench.status()
    assert (offer.number, after.state, after.previous, after.missing, after.parked) == (2, "queued", "new", {}, None)
