"""What the sweep does with what is due: take back, offer, decide, expire, bury, forget (DESIGN 1, 4)."""

from typing import Any

import pytest
from store.kit import APPROVE, AT_ONCE, REJECT, Bench, approval, ending

from turnfleet.store import Keys, commands
from turnfleet.store.records import EndedRun, LostTask, NewDecision, SweepPolicy

FAR = 4_102_444_800_000


async def age(bench: Bench, milliseconds: int, run_id: str = "run") -> None:
    """Let a run look as if its last offer and its due time were earlier."""
    await bench.look.hincrby(bench.keys.record(run_id), "offered", -milliseconds)
    await bench.look.zincrby(bench.keys.prefix(bench.keys.shard(run_id)) + "due", -milliseconds, run_id)


async def test_an_expired_lease_is_taken_back_and_offered(bench: Bench) -> None:
    """The run is queued as `lost`; the time until the last heartbeat counts as running time."""
    await bench.running(lease_ms=0)
    await bench.look.hincrby(bench.keys.record("run"), "claimed", -2_000_000)
    swept = await bench.sweep()
    assert (tuple(offer.number for offer in swept.offers), swept.lost) == ((2,), 1)
    claim = await bench.claim()
    assert (claim.attempt, claim.losses, claim.previous) == (2, 1, "lost")
    assert 2_000_000 <= claim.ran_ms < 3_000_000


async def test_a_live_lease_is_left_alone(bench: Bench) -> None:
    """Also when the run is due for another reason."""
    claim = await bench.running(lease_ms=60_000)
    await bench.look.zadd(bench.keys.prefix(bench.keys.shard("run")) + "due", {"run": 0})
    assert ((await bench.sweep()).offers, (await bench.sweep()).lost) == ((), 0)
    await bench(commands.step(bench.keys, claim, seq=1))


async def test_a_server_that_just_started_takes_no_lease(real: Bench) -> None:
    """Its owners were cut off with it, and renew first (DESIGN 1, "Lease")."""
    claim = await real.running(lease_ms=0)
    swept = await real.sweep(policy=SweepPolicy(quiet_ms=10**9))
    assert (swept.late, swept.lost) == (False, 0)
    await real(commands.step(real.keys, claim, seq=1))
    await real(commands.beat(real.keys, [claim], lease_ms=0))
    assert (await real.sweep(policy=SweepPolicy(quiet_ms=0))).lost == 1


async def test_a_run_that_keeps_losing_its_workers_is_buried(bench: Bench) -> None:
    """`failed`, with a reason and a terminal event; it can be looked at, and retried by hand."""
    await bench.create(thread_id="t1")
    for loss in (1, 2):
        await bench.claim(lease_ms=0)
        swept = await bench.sweep(policy=SweepPolicy(max_attempts=2, reoffer_after_ms=0))
        assert (1, loss - 1) == (swept.lost, swept.failed)
    assert (EndedRun("run", "failed", "t1", "support"),) == swept.ended
    status = await bench.status()
    assert status.error is not None
    assert "2 workers in a row" in status.error
    assert (await bench.kinds(), status.state) == (["error"], "failed")
    await bench(commands.retry(bench.keys, "run"))
    assert (await bench.claim()).losses == 0


@pytest.mark.parametrize("recorded", ["cancelled", "expired"])
async def test_a_lost_run_that_shall_end_ends(bench: Bench, recorded: str) -> None:
    """Its owner died before it could write the end."""
    await bench.create()
    await bench.claim(lease_ms=0, task_id="run")
    if recorded == "cancelled":
        await bench(commands.cancel(bench.keys, "run", reason="stop"))
    else:
        await bench.look.hset(bench.keys.record("run"), "expires", "1")
    swept = await bench.sweep()
    assert (EndedRun("run", recorded, None, "support"),) == swept.ended
    assert [lost.state for lost in swept.lost_tasks] == [recorded]
    assert [recorded] == await bench.kinds()


async def test_a_lost_lease_says_whose_task_it_was_and_what_became_of_the_run(bench: Bench) -> None:
    """Its worker cannot say so any more; of a claim that named no task there is nothing to say."""
    await bench.create()
    for number, policy in ((2, AT_ONCE), (3, AT_ONCE), (3, SweepPolicy(max_attempts=3, reoffer_after_ms=0))):
        await bench.claim(lease_ms=0, task_id="any:id", worker="w7")
        (lost,) = (await bench.sweep(policy=policy)).lost_tasks
        failed = (await bench.status()).error
        assert lost == LostTask("run", "any:id", "w7", "failed" if failed else "queued", number, failed)
    await bench(commands.retry(bench.keys, "run"))
    await bench.claim(lease_ms=0)
    swept = await bench.sweep()
    assert (swept.lost, swept.lost_tasks) == (1, ())


async def test_a_run_is_offered_when_its_eta_comes(bench: Bench) -> None:
    """Its first message is number 1, under the run's own id."""
    await bench.create(eta_ms=FAR)
    assert (await bench.sweep()).offers == ()
    await bench.look.hset(bench.keys.record("run"), "eta", "1")
    await age(bench, FAR)
    assert tuple(offer.number for offer in (await bench.sweep()).offers) == (1,)


async def test_a_lost_message_is_offered_again_with_growing_patience(bench: Bench) -> None:
    """After 10 s, then 20 s more, and so on up to the cap; queue and priority stay."""
    policy = SweepPolicy(reoffer_after_ms=10_000, reoffer_cap_ms=40_000)
    await bench.create(priority=9, queue="mine")
    waits = []
    for _ in range(5):
        assert (await bench.sweep(policy=policy)).offers == ()
        record = bench.keys.record("run")
        offered = int(await bench.look.hget(record, "offered") or 0)
        due = await bench.look.zscore(bench.keys.prefix(bench.keys.shard("run")) + "due", "run")
        waits.append(int(due or 0) - offered)
        await age(bench, waits[-1])
        (offer,) = (await bench.sweep(policy=policy)).offers
    assert waits == [10_000, 20_000, 40_000, 40_000, 40_000]
    assert (offer.queue, offer.priority, offer.number) == ("mine", 9, 6)


async def test_a_queue_where_nobody_looked_is_named_first(bench: Bench) -> None:
    """Whether its messages are lost, or only many, is not known yet."""
    policy = SweepPolicy(reoffer_after_ms=10_000)
    await bench.create(queue="mine")
    await age(bench, 10_000)

    async def sweep(looked: list[str]) -> tuple[tuple[str, ...], list[int]]:
        shard = bench.keys.shard("run")
        swept = await bench(commands.sweep(bench.keys, shard, policy, looked=looked))
        return swept.unseen, [offer.number for offer in swept.offers]

    assert await sweep(["another"]) == (("mine",), [])
    assert await sweep(["another"]) == ((), []), "it is asked about again after a while, not at once"
    await bench.look.zincrby(bench.keys.prefix(bench.keys.shard("run")) + "due", -10_000, "run")
    assert await sweep(["another", "mine"]) == ((), [2])


async def test_a_backlog_does_not_multiply_itself(bench: Bench) -> None:
    """A message no older than the oldest that still waits in its lane was not reached yet, so it is not lost."""
    await bench.create()
    offered = int(await bench.look.hget(bench.keys.record("run"), "offered") or 0)
    for lane, oldest, offers in (
        (("turnfleet.test", 5), offered, 0),
        (("turnfleet.test", 5), offered + 1, 1),
        (("turnfleet.test", 4), offered, 1),
        (("another", 5), offered, 1),
    ):
        waiting_since = {lane: oldest}
        swept = await bench(commands.sweep(bench.keys, bench.keys.shard("run"), AT_ONCE, waiting_since=waiting_since))
        assert (lane, oldest, len(swept.offers)) == (lane, oldest, offers)
        await bench.look.hset(bench.keys.record("run"), "offered", str(offered))


async def test_patience_starts_anew_when_a_run_is_queued_anew(bench: Bench) -> None:
    """A hand-back is no sign of a lost message."""
    await bench.create()
    await bench.sweep()
    await bench.sweep()
    await bench(commands.release(bench.keys, await bench.claim(), seq=1))
    assert await bench.look.hget(bench.keys.record("run"), "reoffers") == b"0"


async def test_a_held_run_is_offered_as_a_fallback_only(bench: Bench) -> None:
    """It waits for its thread, unless nobody comes to let it go."""
    await bench.create(held=True)
    assert (await bench.sweep(policy=SweepPolicy(reoffer_after_ms=10_000))).offers == ()
    await age(bench, 10_000)
    assert tuple(o.number for o in (await bench.sweep(policy=SweepPolicy(reoffer_after_ms=10_000))).offers) == (1,)


async def test_a_held_run_is_let_go_by_hand(bench: Bench) -> None:
    """When its turn comes; a run whose eta is ahead is then offered when due, and one that runs is not."""
    await bench.create(held=True)
    offer = await bench(commands.offer_now(bench.keys, "run"))
    assert offer is not None
    assert offer.number == 1
    await bench.claim()
    assert await bench(commands.offer_now(bench.keys, "run")) is None
    await bench.create("later", held=True, eta_ms=FAR)
    assert await bench(commands.offer_now(bench.keys, "later")) is None


@pytest.mark.parametrize("state", ["queued", "parked", "paused"])
async def test_a_waiting_run_expires(bench: Bench, state: str) -> None:
    """Its keys get their TTL only then, and its log says `expired`."""
    await bench.create(expires_ms=FAR)
    if state != "queued":
        claim = await bench.claim()
        if state == "parked":
            await bench(commands.park(bench.keys, claim, missing={}, text=""))
        else:
            await bench(commands.pause(bench.keys, claim, seq=1, interrupts=[approval(expires_in_ms=60_000)]))
    assert (await bench.sweep()).ended == ()
    await bench.look.hset(bench.keys.record("run"), "expires", "1")
    await age(bench, FAR)
    assert (1, (EndedRun("run", "expired", None, "support"),)) == ((swept := await bench.sweep()).expired, swept.ended)
    assert [(await bench.kinds())[-1], "expired"] == ["expired", (await bench.status()).state]


async def test_a_running_run_that_expires_is_told_and_ends_expired(real: Bench) -> None:
    """The intent is recorded once; the end is written when its claim ends."""
    claim = await real.running()
    await real.look.hset(real.keys.record("run"), "expires", "1")
    await real.look.zadd(real.keys.prefix(real.keys.shard("run")) + "due", {"run": 0})
    async with real.executor.subscribe(real.keys.control("run")) as heard:  # type: ignore[union-attr]
        await anext(heard)
        assert (await real.sweep()).ended == ()
        assert await anext(heard) == b'{"expired":true}'
    assert (await real.status()).state == "running"
    assert (await real(commands.finish(real.keys, claim, seq=1, ending=ending("run", 0)))).state == "expired"


async def test_an_interrupt_that_expires_takes_its_default_decision(bench: Bench) -> None:
    """Through the same script as a person's; the other one goes on waiting."""
    soon = approval(1, expires_in_ms=0, on_expiry=REJECT, roles=("finance",))
    await bench.paused(soon, approval(2))
    swept = await bench.sweep()
    assert (swept.decided, swept.offers, (await bench.status()).state) == (1, (), "paused")
    first, second = (await bench.status()).interrupts
    assert (first.by, first.decision, second.open) == ("expiry", REJECT, True)
    decided = await bench(
        commands.resume(bench.keys, "run", decisions=[NewDecision("approval:c2", APPROVE)], by="alice")
    )
    assert decided.state == "queued"
    assert [entry["interrupt"] for entry in (await bench.claim()).journal] == ["approval:c1", "approval:c2"]


async def test_the_last_default_decision_sets_the_run_going(bench: Bench) -> None:
    """The sweep's offer is published like any other."""
    await bench.paused(approval(expires_in_ms=0, on_expiry=REJECT))
    swept = await bench.sweep()
    assert (swept.decided, [o.number for o in swept.offers], (await bench.status()).state) == (1, [2], "queued")


async def test_an_interrupt_without_default_ends_its_run_expired(bench: Bench) -> None:
    """The reason names it; no default of another interrupt is taken beside it."""
    await bench.paused(approval(1, expires_in_ms=0), approval(2, expires_in_ms=0, on_expiry=REJECT))
    assert ((swept := await bench.sweep()).decided, swept.expired) == (0, 1)
    last = (await bench(commands.read_events(bench.keys, "run"))).events[-1]
    assert (last["kind"], last["reason"]) == ("expired", "nobody decided interrupt approval:c1 in time")


async def test_a_sweep_is_bounded(bench: Bench) -> None:
    """It says that there is more, and goes on where it stopped."""
    bench.keys = Keys(bench.keys.fleet, shards=4, first_look_ms=60_000)
    names = [f"r{n}" for n in range(100) if bench.keys.shard(f"r{n}") == 0][:5]
    for name in names:
        await bench.running(name, lease_ms=0)
    first = await bench(commands.sweep(bench.keys, 0, SweepPolicy(), limit=3))
    second = await bench(commands.sweep(bench.keys, 0, SweepPolicy(), limit=3))
    assert ((first.lost, first.more), (second.lost, second.more)) == ((3, True), (2, False))


async def test_forgotten_runs_leave_the_indexes(bench: Bench) -> None:
    """Else listings would grow for ever; a record that was retried or kept is not dropped."""
    for name in ("r1", "r2"):
        claim = await bench.running(name, tenant="acme")
        await bench(commands.finish(bench.keys, claim, seq=1, ending=ending(name, 0), ttl_ms=60_000))
    await bench.expire_record("r1")
    for name in ("r1", "r2"):
        gone = bench.keys.prefix(bench.keys.shard(name)) + "gone"
        members: Any = await bench.look.zrange(gone, 0, -1)
        for member in members:
            await bench.look.zincrby(gone, -60_000, member)
        await bench.sweep(name)
    left = {key: [run for run, _ in value] for key, (value, _) in (await bench.dump()).items() if b":r:" not in key}
    runs = {run for key, members in left.items() if b":s:" in key or b":t:" in key for run in members}
    assert {b"r2"} == runs


async def test_a_due_entry_without_a_run_is_dropped(bench: Bench) -> None:
    """A record that somebody removed by hand leaves no trace."""
    await bench.create()
    await bench.look.delete(bench.keys.record("run"))
    await bench.sweep()
    await bench(commands.listing(bench.keys, bench.keys.shard("run")))
    assert await bench.dump() == {}


async def test_nothing_due_is_nothing_done(bench: Bench) -> None:
    """An idle sweep changes nothing."""
    await bench.paused()
    before = await bench.dump()
    swept = await bench.sweep(policy=AT_ONCE)
    assert ((), (), before) == (swept.offers, swept.ended, await bench.dump())
