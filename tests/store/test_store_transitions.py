"""Every event from every state: what the table allows happens, and what it does not changes nothing (DESIGN 1)."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from store.kit import APPROVE, Bench, approval, ending

from turnfleet.errors import ClaimLost, IllegalTransition
from turnfleet.store import commands
from turnfleet.store.records import ClaimRef, NewDecision, NotClaimed
from turnfleet.store.transitions import QUEUED, RUNNING, STATES, TERMINAL_STATES, TRANSITIONS, target

RUN = "run"


async def reach(bench: Bench, state: str, tenant: str | None = None) -> ClaimRef:
    """Bring a run into a state, and give the claim that last held it (or one that never did)."""
    keys = bench.keys
    if state == QUEUED:
        await bench.create(tenant=tenant)
        return ClaimRef(RUN, "nobody")
    claim = (await (bench.paused if state == "paused" else bench.running)(tenant=tenant)).ref
    if state == "parked":
        await bench(commands.park(keys, claim, missing={"tool": ["refund"]}, text="no worker has tool refund"))
    elif state in TERMINAL_STATES:
        await bench(commands.finish(keys, claim, seq=1, ending=ending(RUN, 0, state)))
    return claim


Attempt = Callable[[Bench, ClaimRef], Awaitable[Any]]

ATTEMPTS: dict[str, Attempt] = {
    "claim": lambda bench, _: bench(
        commands.claim(bench.keys, RUN, claim_id="new", worker="w2", lease_ms=60_000, recorded=True)
    ),
    "release": lambda bench, claim: bench(commands.release(bench.keys, claim, seq=1)),
    "park": lambda bench, claim: bench(commands.park(bench.keys, claim, missing={}, text="")),
    "unpark": lambda bench, _: bench(commands.unpark(bench.keys, RUN)),
    "pause": lambda bench, claim: bench(commands.pause(bench.keys, claim, seq=1, interrupts=[approval()])),
    "resume": lambda bench, _: bench(
        commands.resume(bench.keys, RUN, decisions=[NewDecision("approval:c1", APPROVE)], by="alice")
    ),
    "complete": lambda bench, claim: bench(commands.finish(bench.keys, claim, seq=1, ending=ending(RUN, 0))),
    "fail": lambda bench, claim: bench(commands.finish(bench.keys, claim, seq=1, ending=ending(RUN, 0, "failed"))),
    "retry": lambda bench, _: bench(commands.retry(bench.keys, RUN)),
}
REFUSALS: dict[str, type[Exception]] = {
    **dict.fromkeys(("release", "park", "pause", "complete", "fail"), ClaimLost),
    **dict.fromkeys(("resume", "retry"), IllegalTransition),
}
CASES = [(event, state) for event in ATTEMPTS for state in STATES]
# A call that is repeated by the same claim after its reply was lost is no new event: it has tests of its own.
REPEATS = {("complete", state) for state in TERMINAL_STATES} | {("fail", state) for state in TERMINAL_STATES}
REPEATS |= {("park", "parked"), ("pause", "paused")}


@pytest.mark.parametrize(("event", "state"), [case for case in CASES if target(*case)])
async def test_a_legal_event_leads_where_the_table_says(bench: Bench, event: str, state: str) -> None:
    """One row of the table, one move."""
    claim = await reach(bench, state)
    await ATTEMPTS[event](bench, claim)
    assert target(event, state) == (await bench.status()).state


@pytest.mark.parametrize(("event", "state"), [case for case in CASES if not target(*case) and case not in REPEATS])
async def test_an_illegal_event_changes_nothing(bench: Bench, event: str, state: str) -> None:
    """The whole fleet's keys are the same before and after, and the answer says what the state was."""
    claim = await reach(bench, state)
    before = await bench.dump()
    if event in REFUSALS:
        with pytest.raises(REFUSALS[event]) as refusal:
            await ATTEMPTS[event](bench, claim)
        assert state == getattr(refusal.value, "state", None)
    else:
        answer = await ATTEMPTS[event](bench, claim)
        assert answer in (None, NotClaimed(RUN, "state", state))
    assert before == await bench.dump()


@pytest.mark.parametrize("state", STATES)
async def test_cancel_ends_what_waits_and_records_an_intent_on_what_runs(bench: Bench, state: str) -> None:
    """Ended runs stay as they are."""
    await reach(bench, state)
    before = await bench.dump()
    answer = await bench(commands.cancel(bench.keys, RUN, reason="not needed"))
    after = await bench.status()
    if state in TERMINAL_STATES:
        assert (False, state, before) == (answer.accepted, answer.state, await bench.dump())
    elif state == RUNNING:
        assert (answer.accepted, after.state, after.cancel) == (True, RUNNING, "not needed")
    else:
        assert (answer.accepted, after.state, (await bench.kinds())[-1:]) == (True, "cancelled", ["cancelled"])


@pytest.mark.parametrize("state", STATES)
async def test_only_an_ended_run_can_be_deleted(bench: Bench, state: str) -> None:
    """A deleted run leaves no key and no index entry behind."""
    await bench.create("other", tenant="acme")
    others = await bench.dump()
    await reach(bench, state, tenant="acme")
    before = await bench.dump()
    if state in TERMINAL_STATES:
        assert await bench(commands.delete(bench.keys, RUN)) is True
        assert await bench.dump() == others
    else:
        with pytest.raises(IllegalTransition):
            await bench(commands.delete(bench.keys, RUN))
        assert before == await bench.dump()


def test_terminal_states_absorb_except_failed() -> None:
    """Only `retry` leaves an end, and only a failed one."""
    leaving = {(event, state) for event, (sources, _) in TRANSITIONS.items() for state in sources}
    assert {("retry", "failed")} == {(event, state) for event, state in leaving if state in TERMINAL_STATES}
