"""Those outside the fleet: who enqueues, who cancels, who decides, who listens. Each lives in a thread of its own.

None of them knows of the faults. What they cannot reach they try again, as any client may: every call is safe to
repeat.
"""

import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from turnfleet import Answer, Approve, Fleet, Reject, Retry, Run, RunInterrupt, RunStatus
from turnfleet.errors import DecisionError, FleetUnavailable, IllegalTransition, UnknownRun
from turnfleet.ids import new_id
from turnfleet_kernel.contracts.interrupts import Decision
from turnfleet_worker.chaos.ledger import AnswerKind, Ledger, Reply
from turnfleet_worker.chaos.workload import PLAN, Script

T = TypeVar("T")

GLANCE_SECONDS: Final = 0.2
TWICE: Final = 0.2
"""How often a decision is sent twice, by two clients."""


class Stopped(Exception):
    """The chaos is over: whoever is waiting goes home."""


@dataclass(frozen=True, slots=True)
class Resumption:
    """A decision that made a run go on: when it was sent (Unix seconds)."""

    run_id: str
    sent: float


@dataclass(frozen=True, slots=True)
class Seen:
    """An event as somebody saw it; `time` in Unix seconds."""

    index: int
    kind: str
    time: float


class Outside:
    """What all of them share: the client, the clock, and when to go home."""

    def __init__(self, fleet: Fleet, scripts: Sequence[Script], ledger: Ledger) -> None:
        self.fleet = fleet
        self.scripts = {script.run_id: script for script in scripts}
        self.ledger = ledger
        self.over = threading.Event()
        self.began = time.monotonic()
        self.enqueued: dict[str, float] = {}
        self.cancelled: dict[str, float] = {}
        """Cancels that were acknowledged as coming before any outcome, by run: when (Unix seconds)."""
        self.ended: dict[str, RunStatus] = {}
        self.announced: frozenset[str] = frozenset()
        self.resumptions: list[Resumption] = []
        self.unreachable = 0
        self.followed: dict[str, list[Seen]] = {}
        self.failures: list[BaseException] = []

    def patiently(self, ask: Callable[[], T]) -> T:
        """Ask until there is an answer. Raises `Stopped` when the chaos is over before, and what `ask` raises."""
        while not self.over.is_set():
            try:
                return ask()
            except FleetUnavailable:
                self.unreachable += 1
                self.over.wait(GLANCE_SECONDS)
        raise Stopped

    def wait_until(self, seconds: float) -> None:
        """Wait for a moment of the chaos (seconds from its start). Raises `Stopped`."""
        if self.over.wait(max(0.0, self.began + seconds - time.monotonic())):
            raise Stopped

    def start(self, followed: Sequence[Script]) -> list[threading.Thread]:
        """Send everybody to work."""
        jobs: list[tuple[str, Callable[[], None]]] = [
            ("enqueue", self._enqueue_all),
            ("cancel", self._cancel_all),
            ("decide", self._decide_all),
            ("watch", self._watch),
        ]
        jobs += [(f"follow {script.run_id}", lambda script=script: self._follow(script)) for script in followed]  # type: ignore[misc]
        threads = [threading.Thread(target=self._work, args=(job,), name=name, daemon=True) for name, job in jobs]
        for thread in threads:
            thread.start()
        return threads

    def _work(self, job: Callable[[], None]) -> None:
        try:
            job()
        except Stopped:
            return
        except BaseException as error:  # noqa: BLE001 - told in the report's place, by the thread that shows it
            self.failures.append(error)

    def _enqueue_all(self) -> None:
        for script in self.scripts.values():
            self.wait_until(script.at)
            self.patiently(lambda script=script: self._enqueue(script))  # type: ignore[misc]
            self.enqueued[script.run_id] = time.monotonic() - self.began

    def _enqueue(self, script: Script) -> Run[None]:
        return self.fleet.enqueue(
            PLAN,
            script.prompt,
            run_id=script.run_id,
            priority=script.priority,
            deadline_seconds=script.deadline_seconds,
            metadata={"kind": script.kind},
        )

    def _cancel_all(self) -> None:
        waiting = [(script.at + script.cancel_after, script) for script in self.scripts.values() if script.cancel_after]
        for at, script in sorted(waiting, key=lambda each: each[0]):
            self.wait_until(at)
            while script.run_id not in self.enqueued:
                self.wait_until(time.monotonic() - self.began + GLANCE_SECONDS)
            run = self.fleet.run(script.run_id)
            if self.patiently(lambda run=run: run.cancel(reason="changed my mind")):  # type: ignore[misc]
                self.cancelled[script.run_id] = time.time()

    def _watch(self) -> None:
        while True:
            self.announced = frozenset(str(each.get("worker")) for each in self.patiently(self.fleet.workers))
            for run_id in [*self.enqueued]:
                if run_id not in self.ended:
                    status = self.patiently(self.fleet.run(run_id).status)
                    if status.ended:
                        self.ended[run_id] = status
            if self.over.wait(GLANCE_SECONDS):
                return

    def _follow(self, script: Script) -> None:
        seen = self.followed.setdefault(script.run_id, [])
        run = self.fleet.run(script.run_id)
        while not self.over.is_set():
            try:
                for event in run.events(after=seen[-1].index if seen else -1, timeout=1.0):
                    seen.append(Seen(event.index, event.kind, event.time.timestamp()))
            except (FleetUnavailable, TimeoutError, UnknownRun):
                self.over.wait(GLANCE_SECONDS)
            else:
                return

    # -- the scripted person

    def _decide_all(self) -> None:
        dice = random.Random("person")  # noqa: S311 - who is in a hurry, no secret
        while not self.over.wait(GLANCE_SECONDS):
            waiting: dict[str, list[RunInterrupt]] = {}
            for each in self.patiently(lambda: self.fleet.interrupts(limit=200)):
                waiting.setdefault(each.run_id, []).append(each)
            for run_id, interrupts in waiting.items():
                self._decide(run_id, interrupts, twice=dice.random() < TWICE)

    def _decide(self, run_id: str, interrupts: Sequence[RunInterrupt], *, twice: bool) -> None:
        decisions = {each.id: decide(self.scripts[run_id], each, self.ledger) for each in interrupts}
        decision_id, run = new_id(), self.fleet.run(run_id)
        try:
            # The first answer decides whether it was taken; the second client's must be none the wiser.
            sent, state = self.patiently(lambda: _resume(run, decisions, decision_id))
            if twice:
                self.patiently(lambda: _resume(run, decisions, decision_id))
        except (DecisionError, IllegalTransition):
            return  # cancelled or over meanwhile; what is open is read again
        if state == "queued":
            self.resumptions.append(Resumption(run_id, sent))


def _resume(run: Run[None], decisions: Mapping[str, Decision], decision_id: str) -> tuple[float, str]:
    sent = time.time()
    return sent, run.resume(decisions, by="the scripted person", decision_id=decision_id)


def decide(script: Script, interrupt: RunInterrupt, ledger: Ledger) -> Decision:
    """Decide as the script and the ledger say, and write the decision down before it is sent."""
    looked = time.time()
    slot = str((interrupt.arguments or {}).get("slot", ""))
    decision: Decision
    match interrupt.kind:
        case "question":
            ledger.reply(Reply(slot, "question", "answer", "person", looked))
            return Answer("yes, go on")
        case "approval":
            decision = Reject("not this one") if slot in script.refused else Approve()
            ledger.reply(Reply(slot, "approval", _word(decision), "person", looked))
        case _:
            decision = Approve(slot) if ledger.read().made(slot) else Retry()
            ledger.reply(Reply(slot, "in_doubt", _word(decision), "person", looked))
    return decision


def _word(decision: Decision) -> AnswerKind:
    match decision:
        case Approve():
            return "approve"
        case Retry():
            return "retry"
        case Reject():
            return "reject"
        case _:
            return "answer"


def read_stream(run: Run[None]) -> tuple[Seen, ...]:
    """Read the whole stream of a run that ended. Raises `TurnfleetError`, and TimeoutError when it has no end."""
    return tuple(Seen(event.index, event.kind, event.time.timestamp()) for event in run.events(timeout=5.0))
