"""Taking a run: once, under a lease, with everything that its invocation needs (DESIGN 1)."""

from typing import Any

import pytest
from store.kit import Bench, ending, event, new_run

from turnfleet.errors import ClaimLost, InvalidId, RunIdConflict
from turnfleet.store import commands
from turnfleet.store.records import Beat, Claim, Created, NotClaimed

FAR = 4_102_444_800_000  # the year 2100


async def test_the_same_run_is_created_once(bench: Bench) -> None:
    """The second time, the run is there already and nothing is to be published."""
    assert Created(existed=False, state="queued", publish=True) == await bench(commands.create(bench.keys, new_run()))
    before = await bench.dump()
    assert Created(existed=True, state="queued", publish=False) == await bench(commands.create(bench.keys, new_run()))
    assert before == await bench.dump()


async def test_another_request_under_the_same_id_is_refused(bench: Bench) -> None:
    """The record keeps the first request."""
    await bench.create()
    before = await bench.dump()
    with pytest.raises(RunIdConflict):
        await bench.create(digest="e" * 64)
    assert before == await bench.dump()


@pytest.mark.parametrize("waits", [{"eta_ms": FAR}, {"held": True}], ids=["eta ahead", "held for its thread"])
async def test_what_must_wait_is_not_published(bench: Bench, waits: dict[str, Any]) -> None:
    """Its first message, number 1, comes later."""
    created = await bench(commands.create(bench.keys, new_run(**waits)))
    assert (created.publish, (await bench.status()).offers) == (False, 0)


async def test_a_claim_brings_all_that_an_invocation_needs(bench: Bench) -> None:
    """Plan and request come back as they were written, empty lists included."""
    new = new_run(tenant="acme", thread_id="t1", deadline_seconds=1.5, metadata={"a": []}, priority=7, expires_ms=FAR)
    await bench(commands.create(bench.keys, new))
    claim = await bench.claim()
    assert (new.plan, new.request, new.digest, new.metadata) == (
        claim.plan,
        claim.request,
        claim.digest,
        claim.metadata,
    )
    assert (
        claim.tenant, claim.thread_id, claim.deadline_seconds, claim.priority, claim.expires_ms,
    ) == ("acme", "t1", 1.5, 7, FAR)  # fmt: skip
    assert (
        claim.attempt, claim.losses, claim.previous, claim.journal, claim.next_index, claim.seq, claim.ran_ms,
        claim.cancel,
    ) == (1, 0, "new", (), 0, 0, 0, None)  # fmt: skip


async def test_a_duplicate_message_finds_nothing_to_claim(bench: Bench) -> None:
    """The broker may deliver as often as it likes."""
    await bench.running()
    second = commands.claim(bench.keys, "run", claim_id="c2", worker="w2", lease_ms=60_000, recorded=True)
    assert NotClaimed("run", "state", "running") == await bench(second)


async def test_a_claim_whose_reply_was_lost_can_be_repeated(bench: Bench) -> None:
    """The same claim id gets the same claim, and the attempt is counted once."""
    await bench.create()
    first = await bench.claim(claim_id="c1")
    assert first == await bench.claim(claim_id="c1")


async def test_a_recorded_message_without_record_does_not_run(bench: Bench) -> None:
    """The run was deleted, or is long over: it must not start afresh."""
    absent = commands.claim(
        bench.keys, "run", claim_id="c1", worker="w1", lease_ms=60_000, recorded=True, create=new_run()
    )
    assert NotClaimed("run", "gone", "") == await bench(absent)
    assert await bench.dump() == {}


async def test_a_foreign_message_creates_its_record_at_the_first_claim(bench: Bench) -> None:
    """Its own message was number 1, so that the next offer is number 2."""
    claim = await bench.claim(recorded=False, create=new_run())
    assert (new_run().request, 1) == (claim.request, (await bench.status()).offers)


async def test_a_message_of_another_request_is_refused(bench: Bench) -> None:
    """The record's request wins over the message's."""
    await bench.create()
    other = commands.claim(
        bench.keys, "run", claim_id="c1", worker="w1", lease_ms=60_000, recorded=True, digest="e" * 64
    )
    assert NotClaimed("run", "digest", "queued") == await bench(other)


async def test_a_run_cannot_be_claimed_before_its_eta(bench: Bench) -> None:
    """A message that comes early is dropped; the due index brings the run at its time."""
    await bench.create(eta_ms=FAR)
    early = commands.claim(bench.keys, "run", claim_id="c1", worker="w1", lease_ms=60_000, recorded=True)
    assert NotClaimed("run", "early", "queued") == await bench(early)


async def test_a_run_past_its_expiry_cannot_be_claimed(bench: Bench) -> None:
    """Even when no sweep has ended it yet."""
    await bench.create(expires_ms=1)
    late = commands.claim(bench.keys, "run", claim_id="c1", worker="w1", lease_ms=60_000, recorded=True)
    assert NotClaimed("run", "state", "expired") == await bench(late)


async def test_a_heartbeat_renews_a_lease_that_ran_out_unnoticed(bench: Bench) -> None:
    """Only taking the run back ends a lease; until then its owner goes on."""
    claim = await bench.running(lease_ms=0)
    assert {"run": Beat(alive=True)} == await bench(commands.beat(bench.keys, [claim], lease_ms=60_000))
    await bench.look.zadd(bench.keys.prefix(bench.keys.shard("run")) + "due", {"run": 0})
    assert (await bench.sweep()).lost == 0


async def test_a_heartbeat_tells_of_a_lost_claim_a_cancel_and_an_expiry(bench: Bench) -> None:
    """One call for all runs of a shard."""
    shard = bench.keys.shard("run")
    names = [f"r{n}" for n in range(100) if bench.keys.shard(f"r{n}") == shard][:3]
    lost, cancelled, expired = [await bench.running(name) for name in names]
    await bench(commands.release(bench.keys, lost, seq=1))
    await bench(commands.cancel(bench.keys, cancelled.run_id, reason="stop"))
    await bench.look.hset(bench.keys.record(expired.run_id), "expires", "1")
    assert {
        lost.run_id: Beat(alive=False),
        cancelled.run_id: Beat(alive=True, cancel="stop"),
        expired.run_id: Beat(alive=True, expired=True),
    } == await bench(commands.beat(bench.keys, [lost, cancelled, expired], lease_ms=60_000))


async def test_one_heartbeat_is_for_one_shard(bench: Bench) -> None:
    """Claims of two shards cannot share a script."""
    first = await bench.running("r0")
    other = next(f"r{n}" for n in range(1, 100) if bench.keys.shard(f"r{n}") != bench.keys.shard("r0"))
    second = await bench.running(other)
    with pytest.raises(ValueError, match="one shard"):
        commands.beat(bench.keys, [first, second], lease_ms=1)


async def test_a_fence_is_equality(bench: Bench) -> None:
    """Whoever holds another claim id is refused, whether older or newer; the refusal names the state."""
    first = await bench.running(lease_ms=0)
    await bench.sweep()
    second = await bench.claim()
    with pytest.raises(ClaimLost) as lost:
        await bench(commands.finish(bench.keys, first, seq=1, ending=ending("run", 0)))
    assert lost.value.state == "running"
    await bench(commands.step(bench.keys, second, seq=1, events=[event("run", 0, "usage")]))


async def test_ids_that_keys_cannot_carry_are_refused_by_name(bench: Bench) -> None:
    """A brace would move a run into another slot."""
    with pytest.raises(InvalidId, match="run id"):
        await bench.create("a{b}")
    with pytest.raises(InvalidId, match="tenant"):
        await bench.create(tenant="two words")
    with pytest.raises(InvalidId, match="thread id"):
        await bench.create(thread_id="a/b")


async def test_attempts_count_claims(bench: Bench) -> None:
    """Also after a hand-back, which says why the next invocation exists."""
    first = await bench.running()
    await bench(commands.release(bench.keys, first, seq=1))
    second: Claim = await bench.claim()
    assert (first.attempt, second.attempt, second.previous) == (1, 2, "released")
