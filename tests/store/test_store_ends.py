"""How a run ends, what is kept of it and for how long (DESIGN 1, 5)."""

import pytest
from store.kit import Bench, ending, event

from turnfleet.errors import ClaimLost, IllegalTransition, UnknownRun
from turnfleet.store import commands
from turnfleet.store.records import Ended
from turnfleet.store.transitions import TERMINAL_STATES


@pytest.mark.parametrize("state", sorted(TERMINAL_STATES))
async def test_an_end_has_one_terminal_event_and_it_is_last(bench: Bench, state: str) -> None:
    """EVT-4; the outcome or the error, the usage and the last event agree with the state."""
    claim = await bench.running()
    finish = commands.finish(
        bench.keys, claim, seq=1, events=[event("run", 0, "usage")], ending=ending("run", 1, state), ttl_ms=60_000
    )
    assert Ended(state) == await bench(finish)
    ended = await bench(commands.outcome(bench.keys, "run"))
    given = ending("run", 1, state)
    assert (state, given.outcome, given.error, given.usage) == (ended.state, ended.outcome, ended.error, ended.usage)
    assert ["usage", given.event["kind"]] == await bench.kinds()


async def test_a_finish_whose_reply_was_lost_can_be_repeated(bench: Bench) -> None:
    """The same claim gets the same answer, another one is refused; nothing is written twice."""
    claim = await bench.running()
    finish = commands.finish(bench.keys, claim, seq=1, ending=ending("run", 0))
    await bench(finish)
    before = await bench.dump()
    assert Ended("completed") == await bench(finish)
    with pytest.raises(ClaimLost):
        await bench(commands.finish(bench.keys, claim, seq=2, ending=ending("run", 1)))
    assert before == await bench.dump()


@pytest.mark.parametrize("brought", ["completed", "failed", "expired"])
async def test_a_cancel_that_came_first_wins_over_any_end(bench: Bench, brought: str) -> None:
    """`True` from cancel means cancelled; its event stands at the index of the one that was brought."""
    claim = await bench.running()
    await bench(commands.cancel(bench.keys, "run", reason='say "stop"'))
    finish = commands.finish(
        bench.keys, claim, seq=1, events=[event("run", 0, "usage")], ending=ending("run", 1, brought)
    )
    assert Ended("cancelled") == await bench(finish)
    assert Ended("cancelled") == await bench(finish)
    last = (await bench(commands.read_events(bench.keys, "run"))).events[-1]
    assert (last["kind"], last["index"], last["reason"], last["run_id"]) == ("cancelled", 1, 'say "stop"', "run")
    ended = await bench(commands.outcome(bench.keys, "run"))
    assert (ended.outcome, ended.error, ended.cancel) == (None, None, 'say "stop"')


async def test_the_first_cancel_reason_stays(bench: Bench) -> None:
    """A second cancel is accepted and changes nothing."""
    await bench.running()
    await bench(commands.cancel(bench.keys, "run", reason="first"))
    assert (await bench(commands.cancel(bench.keys, "run", reason="second"))).accepted
    assert (await bench.status()).cancel == "first"


async def test_an_outcome_after_the_expiry_is_too_late(bench: Bench) -> None:
    """`expires` bounds the whole life (DESIGN 5)."""
    claim = await bench.running()
    await bench.look.hset(bench.keys.record("run"), "expires", "1")
    assert Ended("expired") == await bench(commands.finish(bench.keys, claim, seq=1, ending=ending("run", 0)))
    assert (await bench.kinds(), (await bench(commands.outcome(bench.keys, "run"))).outcome) == (["expired"], None)


async def test_the_end_says_the_reason_that_was_recorded(bench: Bench) -> None:
    """A kernel that ends `cancelled` does not know why; the record does, and its reason is the event's."""
    claim = await bench.running()
    await bench(commands.cancel(bench.keys, "run", reason="stop"))
    await bench(commands.finish(bench.keys, claim, seq=1, ending=ending("run", 0, "cancelled")))
    (last,) = (await bench(commands.read_events(bench.keys, "run"))).events
    assert (last["index"], last["kind"], last["reason"]) == (0, "cancelled", "stop")


async def test_keys_live_on_after_the_end_for_their_retention(bench: Bench) -> None:
    """No key of a run has a TTL before; all of them have the same one after."""
    claim = await bench.paused()
    there = [key for key in bench.keys_of("run") if await bench.look.exists(key)]
    assert {-1} == {await bench.look.pttl(key) for key in there}
    await bench(commands.cancel(bench.keys, claim.run_id, reason="", ttl_ms=50_000))
    for key in bench.keys_of("run"):
        if await bench.look.exists(key):
            assert 40_000 < await bench.look.pttl(key) <= 50_000


async def test_a_failed_run_goes_on_from_its_journal(bench: Bench) -> None:
    """Retry takes the TTL away, keeps journal and log, appends `resumed`, and counts losses from nought."""
    claim = await bench.running()
    await bench(commands.step(bench.keys, claim, seq=1, entries=[{"k": "turn"}], events=[event("run", 0, "usage")]))
    await bench(commands.finish(bench.keys, claim, seq=2, ending=ending("run", 1, "failed")))
    offer = await bench(commands.retry(bench.keys, "run"))
    again = await bench.claim()
    assert (offer.number, again.previous, again.losses, again.next_index, again.seq) == (2, "failed", 0, 3, 2)
    assert (again.journal, await bench.kinds()) == (({"k": "turn"},), ["usage", "error", "resumed"])
    status = await bench.status()
    assert (status.error, status.ended_ms) == (None, None)
    await bench(commands.finish(bench.keys, again, seq=3, ending=ending("run", 3)))
    assert await bench.kinds() == ["usage", "error", "resumed", "done"]


async def test_a_retried_run_stays_in_the_indexes_when_its_first_retention_is_over(bench: Bench) -> None:
    """The entry that would have dropped it from the listing is taken back."""
    claim = await bench.running(tenant="acme")
    await bench(commands.finish(bench.keys, claim, seq=1, ending=ending("run", 0, "failed"), ttl_ms=60_000))
    await bench(commands.retry(bench.keys, "run"))
    for key in await bench.dump():
        assert not key.endswith(b"gone")


async def test_running_time_adds_up_over_invocations(bench: Bench) -> None:
    """Time from claim to pause, release or finish counts; waiting does not (CXL-6)."""
    claim = await bench.running()
    await bench.look.hincrby(bench.keys.record("run"), "claimed", -2_000_000)
    await bench(commands.release(bench.keys, claim, seq=1))
    second = await bench.claim()
    assert 2_000_000 <= second.ran_ms < 3_000_000
    await bench.look.hincrby(bench.keys.record("run"), "claimed", -3_000_000)
    await bench(commands.finish(bench.keys, second, seq=2, ending=ending("run", 0)))
    assert 5_000_000 <= (await bench.status()).ran_ms < 6_000_000


async def test_a_cancel_tells_the_owner_of_a_running_run(real: Bench) -> None:
    """Over the control channel, besides being read on every heartbeat."""
    await real.running()
    async with real.executor.subscribe(real.keys.control("run")) as heard:  # type: ignore[union-attr]
        await anext(heard)
        await real(commands.cancel(real.keys, "run", reason='a "b"'))
        assert await anext(heard) == b'{"cancel":"a \\"b\\""}'


async def test_looking_at_a_run_that_does_not_exist(bench: Bench) -> None:
    """One named error for every command that needs a run."""
    keys = bench.keys
    for command in (
        commands.status(keys, "nobody"), commands.outcome(keys, "nobody"), commands.definition(keys, "nobody"),
        commands.read_events(keys, "nobody"), commands.cancel(keys, "nobody", reason=""),
        commands.retry(keys, "nobody"), commands.unpark(keys, "nobody"), commands.offer_now(keys, "nobody"),
    ):  # fmt: skip
        with pytest.raises(UnknownRun, match="nobody"):
            await bench(command)
    assert await bench(commands.delete(keys, "nobody")) is False
    assert await bench.dump() == {}


async def test_only_failed_runs_are_retried(bench: Bench) -> None:
    """The refusal says what the run is."""
    claim = await bench.running()
    await bench(commands.finish(bench.keys, claim, seq=1, ending=ending("run", 0)))
    with pytest.raises(IllegalTransition, match="completed"):
        await bench(commands.retry(bench.keys, "run"))
