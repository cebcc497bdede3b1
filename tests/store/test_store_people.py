"""People decide: compare-and-set per interrupt, all or nothing, and once (DESIGN 4, HK-5, HK-6)."""

import json
from typing import Any

import pytest
from store.kit import APPROVE, REJECT, Bench, approval, ending, event

from turnfleet.errors import (
    IllegalTransition,
    InvalidDecision,
    NotAllowed,
    ResumeConflict,
    UnknownInterrupt,
    UnknownRun,
)
from turnfleet.store import Command, commands
from turnfleet.store.records import Ended, NewDecision, Resumed, StoredInterrupt

ONE, TWO = "approval:c1", "approval:c2"


def resume(bench: Bench, *decided: tuple[str, dict[str, Any]], by: str = "alice", **options: Any) -> Command[Resumed]:
    """Build a resume with some decisions."""
    decisions = [NewDecision(interrupt_id, decision) for interrupt_id, decision in decided]
    return commands.resume(bench.keys, "run", decisions=decisions, by=by, **options)


async def test_a_pause_keeps_what_a_person_must_see(bench: Bench) -> None:
    """HK-3: payload, roles, digest and expiry come back; no TTL and nothing due without an expiry."""
    asked = approval(roles=("finance",), schema={"required": []}, on_expiry=REJECT, expires_in_ms=60_000)
    await bench.paused(asked)
    snapshot = await bench.status()
    (kept,) = snapshot.interrupts
    assert (asked.payload, asked.roles, asked.schema, asked.digest, asked.on_expiry, asked.call_id) == (
        kept.payload, kept.roles, kept.schema, kept.digest, kept.on_expiry, kept.call_id,
    )  # fmt: skip
    assert kept.expires_ms == snapshot.changed_ms + 60_000
    assert kept.open


async def test_the_pause_event_is_the_last_of_the_pause(bench: Bench) -> None:
    """EVT-11, and the invocation's running time and usage are kept."""
    claim = await bench.running()
    events = [event("run", 0, "usage"), event("run", 1, "approval")]
    pause = commands.pause(
        bench.keys, claim, seq=1, entries=[{"k": "paused"}], events=events, interrupts=[approval()], usage={"n": 1}
    )
    assert Ended("paused") == await bench(pause)
    assert Ended("paused") == await bench(pause)
    assert (await bench.kinds(), (await bench.status()).usage) == (["usage", "approval"], {"n": 1})


async def test_a_decision_makes_the_run_claimable_and_is_journaled(bench: Bench) -> None:
    """The next invocation finds the decision in its journal; the offer has the next number."""
    await bench.paused()
    resumed = await bench(resume(bench, (ONE, APPROVE), by="alice", decision_id="x1"))
    assert resumed.offer is not None
    assert (resumed.state, resumed.offer.number) == ("queued", 2)
    claim = await bench.claim()
    decision = {
        "k": "decision", "interrupt": ONE, "decision": APPROVE, "by": "alice", "decision_id": "x1", "at": 0,
    }  # fmt: skip
    assert ("paused", (decision,)) == (claim.previous, claim.journal)


async def test_two_people_answer_two_interrupts(bench: Bench) -> None:
    """Decided in part, the run stays paused; the second decision sets it going (HK-5)."""
    await bench.paused(approval(1), approval(2))
    assert Resumed("paused", None) == await bench(resume(bench, (ONE, APPROVE), by="alice"))
    second = await bench(resume(bench, (TWO, REJECT), by="bob"))
    assert (second.state, second.offer is not None) == ("queued", True)
    assert [(i.by, i.decision) for i in (await bench.status()).interrupts] == [("alice", APPROVE), ("bob", REJECT)]


async def test_the_second_of_two_decisions_is_a_conflict(bench: Bench) -> None:
    """Whether the run still waits for another decision, runs, or ended: it names who decided."""
    await bench.paused(approval(1), approval(2))
    await bench(resume(bench, (ONE, APPROVE), by="alice"))
    for _ in range(3):
        before = await bench.dump()
        with pytest.raises(ResumeConflict) as conflict:
            await bench(resume(bench, (ONE, REJECT), by="bob"))
        assert ("alice", ONE, before) == (conflict.value.decided_by, conflict.value.interrupt_id, await bench.dump())
        if (await bench.status()).state == "paused":
            await bench(resume(bench, (TWO, APPROVE)))
        elif (await bench.status()).state == "queued":
            claim = await bench.claim()
            await bench(commands.finish(bench.keys, claim, seq=2, ending=ending("run", 0)))


async def test_nobody_changes_their_own_decision_either(bench: Bench) -> None:
    """What was decided may be under way already."""
    await bench.paused()
    await bench(resume(bench, (ONE, APPROVE), by="alice", decision_id="x1"))
    with pytest.raises(ResumeConflict):
        await bench(resume(bench, (ONE, REJECT), by="alice", decision_id="x2"))


@pytest.mark.parametrize("same", ["person and decision", "decision id"])
async def test_repeating_a_decision_succeeds(bench: Bench, same: str) -> None:
    """A lost reply is no conflict, whatever the run does meanwhile; nothing is written twice."""
    await bench.paused()
    first, again = (
        (resume(bench, (ONE, APPROVE)), resume(bench, (ONE, dict(reversed(APPROVE.items())))))
        if same == "person and decision"
        else (resume(bench, (ONE, APPROVE), decision_id="x"), resume(bench, (ONE, REJECT), by="bob", decision_id="x"))
    )
    await bench(first)
    for state in ("queued", "running", "completed"):
        before = await bench.dump()
        assert Resumed(state, None) == await bench(again)
        assert before == await bench.dump()
        if state == "queued":
            claim = await bench.claim()
        elif state == "running":
            await bench(commands.finish(bench.keys, claim, seq=2, ending=ending("run", 0)))


async def test_one_bad_decision_spoils_the_call(bench: Bench) -> None:
    """All or nothing: the good decision beside it is not taken."""
    await bench.paused(approval(1), approval(2, roles=("finance",)))
    before = await bench.dump()
    with pytest.raises(NotAllowed, match="finance"):
        await bench(resume(bench, (ONE, APPROVE), (TWO, APPROVE)))
    with pytest.raises(UnknownInterrupt, match="approval:c9"):
        await bench(resume(bench, (ONE, APPROVE), ("approval:c9", APPROVE)))
    with pytest.raises(InvalidDecision, match="approve, edit, reject"):
        await bench(resume(bench, (ONE, APPROVE), (TWO, {"kind": "answer", "value": 1}), roles=("finance",)))
    assert before == await bench.dump()
    assert (await bench(resume(bench, (ONE, APPROVE), (TWO, APPROVE), roles=("finance",)))).state == "queued"


@pytest.mark.parametrize(
    ("kind", "fitting"),
    [
        ("approval", {"approve", "edit", "reject"}),
        ("question", {"answer", "reject"}),
        ("in_doubt", {"approve", "edit", "retry", "reject"}),
    ],
)
async def test_a_decision_must_fit_its_interrupt(bench: Bench, kind: str, fitting: set[str]) -> None:
    """HK-6, for every decision kind there is and one that there is not."""
    taken = set()
    for decision in ("approve", "edit", "reject", "answer", "retry", "shrug"):
        run_id = f"run-{decision}"
        await bench.paused(approval(kind=kind), run_id=run_id)
        decisions = [NewDecision(ONE, {"kind": decision})]
        try:
            await bench(commands.resume(bench.keys, run_id, decisions=decisions, by="alice"))
        except InvalidDecision:
            continue
        taken.add(decision)
    assert fitting == taken


async def test_roles_are_needed_where_they_are_asked_for(bench: Bench) -> None:
    """Stating none is as good as having none."""
    await bench.paused(approval(roles=("finance", "legal")))
    for roles in (None, (), ("support",)):
        with pytest.raises(NotAllowed):
            await bench(resume(bench, (ONE, APPROVE), roles=roles))
    assert (await bench(resume(bench, (ONE, APPROVE), roles=("support", "legal")))).state == "queued"


async def test_a_decision_binds_to_what_was_shown(bench: Bench) -> None:
    """A digest of other arguments is refused (DESIGN 4)."""
    await bench.paused()
    outdated = [NewDecision(ONE, APPROVE, digest="of other arguments")]
    with pytest.raises(ResumeConflict, match="changed since it was shown"):
        await bench(commands.resume(bench.keys, "run", decisions=outdated, by="alice"))
    current = [NewDecision(ONE, APPROVE, digest="args1")]
    assert (await bench(commands.resume(bench.keys, "run", decisions=current, by="alice"))).state == "queued"


async def test_the_same_id_with_other_arguments_asks_anew(bench: Bench) -> None:
    """An old decision must not approve what nobody was shown."""
    await bench.paused()
    await bench(resume(bench, (ONE, APPROVE)))
    claim = await bench.claim()
    again = commands.pause(bench.keys, claim, seq=2, interrupts=[approval(digest="other arguments")])
    assert Ended("paused") == await bench(again)
    assert [each.open for each in (await bench.status()).interrupts] == [True]


async def test_a_pause_on_what_is_decided_goes_on_at_once(bench: Bench) -> None:
    """Everything was answered already: the run is queued, with an offer, and not forgotten in `paused`."""
    await bench.paused()
    await bench(resume(bench, (ONE, APPROVE)))
    claim = await bench.claim()
    pause = commands.pause(bench.keys, claim, seq=2, interrupts=[approval()])
    ended = await bench(pause)
    assert ended.offer is not None
    assert (ended.state, ended.offer.number) == ("queued", 3)
    assert ended == await bench(pause)


async def test_a_later_pause_keeps_the_earlier_decisions(bench: Bench) -> None:
    """They are shown, in order, until the run is forgotten."""
    await bench.paused()
    await bench(resume(bench, (ONE, APPROVE)))
    await bench(commands.pause(bench.keys, await bench.claim(), seq=2, interrupts=[approval(2)]))
    assert [(each.id, each.open) for each in (await bench.status()).interrupts] == [(ONE, False), (TWO, True)]


@pytest.mark.parametrize("recorded", ["cancelled", "expired"])
async def test_a_run_that_shall_end_does_not_pause(bench: Bench, recorded: str) -> None:
    """Its end takes the place of the pause event, at the same index."""
    claim = await bench.running()
    if recorded == "cancelled":
        await bench(commands.cancel(bench.keys, "run", reason="stop"))
    else:
        await bench.look.hset(bench.keys.record("run"), "expires", "1")
    events = [event("run", 0, "usage"), event("run", 1, "approval")]
    pause = commands.pause(bench.keys, claim, seq=1, events=events, interrupts=[approval()])
    assert Ended(recorded) == await bench(pause)
    assert Ended(recorded) == await bench(pause)
    assert (["usage", recorded], ()) == (await bench.kinds(), (await bench.status()).interrupts)


async def test_decisions_on_runs_that_do_not_wait(bench: Bench) -> None:
    """Unknown, never paused, ended: each has its name."""
    with pytest.raises(UnknownRun):
        await bench(resume(bench, (ONE, APPROVE)))
    await bench.create()
    with pytest.raises(IllegalTransition, match="queued"):
        await bench(resume(bench, (ONE, APPROVE)))
    await bench(commands.cancel(bench.keys, "run", reason=""))
    with pytest.raises(IllegalTransition, match="cancelled"):
        await bench(resume(bench, (ONE, APPROVE)))


def test_a_resume_needs_decisions_that_make_sense(bench: Bench) -> None:
    """None, two on one interrupt, or one without a kind are refused before anything is sent."""
    with pytest.raises(InvalidDecision, match="at least one"):
        resume(bench)
    with pytest.raises(InvalidDecision, match="two decisions"):
        resume(bench, (ONE, APPROVE), (ONE, REJECT))
    with pytest.raises(InvalidDecision, match="no kind"):
        resume(bench, (ONE, {"value": 1}))


async def test_an_interrupt_that_makes_no_sense_is_refused(bench: Bench) -> None:
    """Before a person could wait for it in vain."""
    claim = await bench.running()
    bad: list[list[StoredInterrupt]] = [
        [],
        [approval(), approval()],
        [approval(kind="riddle")],
        [approval(on_expiry={"kind": "answer", "value": 1})],
    ]
    for interrupts in bad:
        with pytest.raises(ValueError, match="interrupt"):
            commands.pause(bench.keys, claim, seq=1, interrupts=interrupts)


async def test_words_of_people_are_carried_as_they_are(bench: Bench) -> None:
    """Quotes, backslashes and other scripts in names and reasons survive the Lua that writes them."""
    await bench.paused()
    by, reason = 'Zoë "the\\boss"\n', "nein — 没有"
    await bench(resume(bench, (ONE, {"kind": "reject", "reason": reason}), by=by))
    (entry,) = [json.loads(each) for each in await bench.journal()]
    assert (by, reason) == (entry["by"], entry["decision"]["reason"])
    assert by == (await bench.status()).interrupts[0].by
