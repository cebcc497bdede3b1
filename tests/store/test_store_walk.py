"""A long random walk: a plain Python model of one run, and the store, agree after every step (hypothesis)."""

import itertools
from typing import Any

import fakeredis
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from store.kit import APPROVE, REJECT, approval, ending, event, new_run

from turnfleet.errors import FencedOff, IllegalTransition, ResumeConflict
from turnfleet.store import Command, Keys, commands
from turnfleet.store.executor import SyncExecutor
from turnfleet.store.records import Claim, ClaimRef, NewDecision, NotClaimed, Offer, SweepPolicy
from turnfleet.store.transitions import ENDINGS, TERMINAL_STATES, target

RUN = "run"


class RunWalk(RuleBasedStateMachine):
    """One run under everything that may happen to it. On fakeredis: thousands of steps, and no clock in them."""

    def __init__(self) -> None:
        super().__init__()
        self.client = fakeredis.FakeRedis()
        self.executor = SyncExecutor(self.client)
        self.keys = Keys("walk", shards=1, first_look_ms=0)
        self.ids = itertools.count(1)
        self.executor.execute(commands.create(self.keys, new_run(tenant="acme")))
        # The model: what a plain reading of DESIGN 1, 2 and 4 says.
        self.state = "queued"
        self.claim: ClaimRef | None = None
        self.stale: ClaimRef = ClaimRef(RUN, "nobody")
        self.seq = self.attempt = self.losses = 0
        self.kinds: list[str] = []
        self.entries: list[str] = []
        self.asked: dict[str, dict[str, Any] | None] = {}
        self.cancelled = False

    def do(self, command: Command[Any]) -> Any:
        """Run a command."""
        return self.executor.execute(command)

    def leave(self, event_name: str) -> None:
        """Note that the claim is over; a recorded cancel wins."""
        end = "cancel" if self.cancelled else event_name
        state = target(end, "running")
        assert state is not None
        self.state = state
        assert self.claim is not None
        self.stale, self.claim = self.claim, None
        if state in TERMINAL_STATES:
            self.kinds.append({"completed": "done", "failed": "error"}.get(state, state))

    @rule()
    def claim_it(self) -> None:
        """Let a message arrive at a worker."""
        answer = self.do(
            commands.claim(self.keys, RUN, claim_id=f"c{next(self.ids)}", worker="w", lease_ms=60_000, recorded=True)
        )
        if self.state == "queued":
            assert isinstance(answer, Claim)
            self.state, self.claim, self.attempt = "running", answer.ref, self.attempt + 1
            assert (self.attempt, self.losses, self.seq, len(self.kinds)) == (
                answer.attempt, answer.losses, answer.seq, answer.next_index,
            )  # fmt: skip
            assert self.entries == [entry["k"] for entry in answer.journal]
        else:
            assert NotClaimed(RUN, "state", self.state) == answer

    @precondition(lambda self: self.claim is not None)
    @rule(kind=st.sampled_from(["turn", "start", "receipt"]), events=st.integers(0, 2), repeat=st.booleans())
    def step(self, kind: str, events: int, repeat: bool) -> None:
        """Write as the owner, perhaps twice."""
        assert self.claim is not None
        command = commands.step(
            self.keys, self.claim, seq=self.seq + 1, entries=[{"k": kind}], starts_effect=kind == "start",
            events=[event(RUN, len(self.kinds) + n, "usage") for n in range(events)],
        )  # fmt: skip
        for _ in range(1 + repeat):
            assert ("stop" if self.cancelled else None) == self.do(command).cancel
        if kind == "start" and self.cancelled:
            return
        self.seq += 1
        self.entries.append(kind)
        self.kinds += ["usage"] * events
        self.losses = self.losses if kind == "start" else 0

    @rule(wrong=st.sampled_from([-1, 0, 2, 5]))
    def bad_write(self, wrong: int) -> None:
        """Write as a lost owner, or what does not follow: nothing changes."""
        before = self.do(commands.outcome(self.keys, RUN))
        ref = self.claim or self.stale
        if self.claim is not None and wrong != 0:
            command = commands.step(self.keys, ref, seq=self.seq + wrong if wrong > 0 else -1)
        else:
            command = commands.step(self.keys, self.stale, seq=self.seq + 1, entries=[{"k": "turn"}])
        with pytest.raises(FencedOff):
            self.do(command)
        assert before == self.do(commands.outcome(self.keys, RUN))

    @precondition(lambda self: self.claim is not None)
    @rule(state=st.sampled_from(["completed", "failed"]))
    def finish(self, state: str) -> None:
        """End the run by its invocation."""
        assert self.claim is not None
        answer = self.do(
            commands.finish(self.keys, self.claim, seq=self.seq + 1, ending=ending(RUN, len(self.kinds), state))
        )
        self.seq += 1
        self.leave(ENDINGS[state])
        assert self.state == answer.state

    @precondition(lambda self: self.claim is not None)
    @rule()
    def release(self) -> None:
        """Hand the run back."""
        assert self.claim is not None
        answer = self.do(commands.release(self.keys, self.claim, seq=self.seq + 1))
        self.seq += 1
        self.leave("release")
        assert isinstance(answer, Offer) == (self.state == "queued")

    @precondition(lambda self: self.claim is not None)
    @rule()
    def park(self) -> None:
        """Find that no worker fits."""
        assert self.claim is not None
        self.do(commands.park(self.keys, self.claim, missing={"tool": ["x"]}, text="x"))
        self.leave("park")

    @rule()
    def unpark(self) -> None:
        """Let a worker come that fits."""
        answer = self.do(commands.unpark(self.keys, RUN))
        assert (answer is not None) == (self.state == "parked")
        self.state = "queued" if self.state == "parked" else self.state

    @precondition(lambda self: self.claim is not None)
    @rule(count=st.integers(1, 2))
    def pause(self, count: int) -> None:
        """Let the run wait for people."""
        assert self.claim is not None
        waiting = [approval(next(self.ids)) for _ in range(count)]
        self.do(
            commands.pause(
                self.keys, self.claim, seq=self.seq + 1, entries=[{"k": "paused"}], interrupts=waiting,
                events=[event(RUN, len(self.kinds), "approval")],
            )
        )  # fmt: skip
        self.seq += 1
        self.losses = 0
        self.entries.append("paused")
        if not self.cancelled:
            self.kinds.append("approval")
            self.asked |= {each.id: None for each in waiting}
        self.leave("pause")

    @precondition(lambda self: self.asked)
    @rule(data=st.data(), decision=st.sampled_from([APPROVE, REJECT]))
    def decide(self, data: st.DataObject, decision: dict[str, Any]) -> None:
        """Decide, for the first time or once more, in time or too late."""
        chosen = data.draw(st.sampled_from(sorted(self.asked)))
        taken = self.asked[chosen]
        command = commands.resume(self.keys, RUN, decisions=[NewDecision(chosen, decision)], by="alice")
        try:
            answer = self.do(command)
        except ResumeConflict:
            assert taken not in (None, decision)
            return
        except IllegalTransition:
            assert taken is None
            assert self.state != "paused"
            return
        assert taken in (None, decision)
        if taken is None:
            assert self.state == "paused"
            self.asked[chosen] = decision
            self.entries.append("decision")
            if None not in self.asked.values():
                self.state, self.losses = "queued", 0
        assert self.state == answer.state

    @rule()
    def cancel(self) -> None:
        """Ask for its end."""
        answer = self.do(commands.cancel(self.keys, RUN, reason="stop"))
        assert answer.accepted == (self.state not in TERMINAL_STATES)
        if self.state == "running":
            self.cancelled = True
        elif answer.accepted:
            self.state = "cancelled"
            self.kinds.append("cancelled")

    @rule()
    def retry(self) -> None:
        """Let a failed run go on, by hand."""
        try:
            self.do(commands.retry(self.keys, RUN))
        except IllegalTransition:
            assert self.state != "failed"
        else:
            assert self.state == "failed"
            self.state, self.losses = "queued", 0
            self.kinds.append("resumed")

    @rule(lost=st.booleans())
    def sweep(self, lost: bool) -> None:
        """Sweep; perhaps the owner has stopped beating."""
        if lost and self.claim is not None:
            self.do(commands.beat(self.keys, [self.claim], lease_ms=0))
        swept = self.do(commands.sweep(self.keys, 0, SweepPolicy(max_attempts=3, reoffer_after_ms=0)))
        if lost and self.claim is not None:
            assert swept.lost == 1
            self.losses += 1
            self.leave("fail" if self.losses == 3 else "lose")
        else:
            assert (swept.lost, len(swept.offers)) == (0, 1 if self.state == "queued" else 0)

    @invariant()
    def the_store_agrees(self) -> None:
        """State, counters, log, journal, TTLs and indexes are what the model says."""
        found = self.do(commands.status(self.keys, RUN))
        assert (self.state, self.attempt, self.losses) == (found.state, found.attempt, found.losses)
        page = self.do(commands.read_events(self.keys, RUN))
        assert list(enumerate(self.kinds)) == [(each["index"], each["kind"]) for each in page.events]
        assert self.asked == {each.id: each.decision for each in found.interrupts}
        ended = self.state in TERMINAL_STATES
        for key in (self.keys.record(RUN), self.keys.journal(RUN), self.keys.events(RUN), self.keys.interrupts(RUN)):
            if self.client.exists(key):
                assert ended == (self.client.pttl(key) != -1)
        prefix = self.keys.prefix(0)
        assert self.client.zcard(prefix + "due") == (not ended)
        assert self.client.zcard(prefix + "open") == (self.state == "paused")
        assert self.client.zcard(prefix + "gone") == ended
        assert [f"{prefix}s:{self.state}".encode()] == list(self.client.scan_iter(match=f"{prefix}s:*"))

    def teardown(self) -> None:
        """Close the client."""
        self.client.close()


TestRunWalk = RunWalk.TestCase
TestRunWalk.settings = settings(max_examples=40, stateful_step_count=40)
