"""Races on the real server: whoever comes first, everybody learns the same (DESIGN 4, 5)."""

import asyncio
from collections import Counter

from store.kit import APPROVE, REJECT, Bench, approval, ending

from turnfleet.errors import ResumeConflict
from turnfleet.store import commands
from turnfleet.store.executor import AsyncExecutor
from turnfleet.store.records import Claim, NewDecision, Resumed, SweepPolicy

RACES = 100


def two(redis_url: str) -> tuple[AsyncExecutor, AsyncExecutor]:
    """Give two executors with connections of their own: one alone would put its commands in order."""
    return AsyncExecutor(redis_url), AsyncExecutor(redis_url)


async def test_of_two_concurrent_resumes_one_wins(real: Bench, redis_url: str) -> None:
    """The other gets `ResumeConflict`, and the winner's decision is the one in the journal; 100 times."""
    left, right = two(redis_url)
    for number in range(RACES):
        run_id = f"run{number}"
        await real.paused(run_id=run_id)
        alice = commands.resume(real.keys, run_id, decisions=[NewDecision("approval:c1", APPROVE)], by="alice")
        bob = commands.resume(real.keys, run_id, decisions=[NewDecision("approval:c1", REJECT)], by="bob")
        order = [(left, alice), (right, bob)] if number % 2 else [(right, bob), (left, alice)]
        answers = await asyncio.gather(*(each.execute(what) for each, what in order), return_exceptions=True)
        assert Counter([Resumed, ResumeConflict]) == Counter(map(type, answers))
        first_won = isinstance(answers[0], Resumed)
        winner = APPROVE if first_won == bool(number % 2) else REJECT
        assert [winner] == [entry["decision"] for entry in (await real.claim(run_id)).journal]
    await asyncio.gather(left.aclose(), right.aclose())


async def test_two_people_answering_two_interrupts_both_win(real: Bench, redis_url: str) -> None:
    """Exactly one of the two calls makes the run claimable, and so has its offer."""
    left, right = two(redis_url)
    for number in range(20):
        run_id = f"run{number}"
        await real.paused(approval(1), approval(2), run_id=run_id)
        answers = await asyncio.gather(
            *(
                executor.execute(
                    commands.resume(real.keys, run_id, decisions=[NewDecision(f"approval:c{n}", APPROVE)], by=f"p{n}")
                )
                for executor, n in ((left, 1), (right, 2))
            )
        )
        assert sorted(answer.state for answer in answers) == ["paused", "queued"]
        assert [answer.offer is not None for answer in answers if answer.state == "queued"] == [True]
    await asyncio.gather(left.aclose(), right.aclose())


async def test_of_many_claims_one_wins(real: Bench, redis_url: str) -> None:
    """Twenty deliveries of one message, one invocation."""
    left, right = two(redis_url)
    await real.create()
    answers = await asyncio.gather(
        *(
            (left, right)[n % 2].execute(
                commands.claim(real.keys, "run", claim_id=f"c{n}", worker="w", lease_ms=60_000, recorded=True)
            )
            for n in range(20)
        )
    )
    assert sum(isinstance(answer, Claim) for answer in answers) == 1
    assert (await real.status()).attempt == 1
    await asyncio.gather(left.aclose(), right.aclose())


async def test_a_cancel_and_a_finish_agree_on_one_end(real: Bench, redis_url: str) -> None:
    """One terminal event; `True` from cancel means cancelled, `False` means that the outcome stands; 100 times."""
    left, right = two(redis_url)
    for number in range(RACES):
        run_id = f"run{number}"
        claim = await real.running(run_id)
        finish = commands.finish(real.keys, claim, seq=1, ending=ending(run_id, 0))
        cancel = commands.cancel(real.keys, run_id, reason="stop")
        async with asyncio.TaskGroup() as both:
            if number % 2:
                cancelling = both.create_task(left.execute(cancel))
            finishing = both.create_task(right.execute(finish))
            if not number % 2:
                cancelling = both.create_task(left.execute(cancel))
        cancelled, ended = cancelling.result(), finishing.result()
        state = (await real.status(run_id)).state
        assert ("cancelled" if cancelled.accepted else "completed") == state == ended.state
        assert [{"cancelled": "cancelled", "completed": "done"}[state]] == await real.kinds(run_id)
    await asyncio.gather(left.aclose(), right.aclose())


async def test_a_heartbeat_and_a_sweep_agree_on_who_holds_the_run(real: Bench, redis_url: str) -> None:
    """Either the lease was renewed, or the run was taken back and the beat says so; never both."""
    left, right = two(redis_url)
    for number in range(20):
        run_id = f"run{number}"
        claim = await real.running(run_id, lease_ms=0)
        beats, swept = await asyncio.gather(
            left.execute(commands.beat(real.keys, [claim], lease_ms=60_000)),
            right.execute(commands.sweep(real.keys, real.keys.shard(run_id), SweepPolicy())),
        )
        taken = [offer.run_id for offer in swept.offers].count(run_id)
        assert (1 if beats[run_id].alive else 0) + taken == 1
    await asyncio.gather(left.aclose(), right.aclose())
