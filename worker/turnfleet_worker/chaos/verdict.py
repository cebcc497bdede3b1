"""The verdict: from what was planned, done and seen to what was lost, repeated and left unexplained. Nothing awaits.

What counts as explained is DESIGN's claim, "every repeat is either keyed or asked about", and its one window. It is
written out in docs/design/chaos.md.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from turnfleet_kernel.contracts.events import TERMINAL_KINDS
from turnfleet_worker.chaos.crew import Frozen
from turnfleet_worker.chaos.ledger import Effect, Record, Reply
from turnfleet_worker.chaos.people import Seen
from turnfleet_worker.chaos.workload import APPROVED, IDEMPOTENT, Script

WAKING_SECONDS: Final = 2.0
"""How long after it woke a frozen worker may still make the effect that it was about to make: two heartbeats, then it
knows that its claim is gone, and the calls that run are cancelled. (Measured: a few milliseconds.)"""

CANCEL_SECONDS: Final = 2.0
"""How long after an acknowledged cancel a tool's function may begin whose start was in the journal before."""

_KIND_OF_END: Final = {"completed": "done", "failed": "error", "cancelled": "cancelled", "expired": "expired"}


@dataclass(frozen=True, slots=True)
class End:
    """What became of a run: its state, its error, and its whole stream; `problem`: why that could not be read."""

    state: str
    error: str = ""
    stream: tuple[Seen, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything that is known when it is over. `unended` says, by run, what is known of one that has no end."""

    scripts: Sequence[Script]
    ends: Mapping[str, End]
    record: Record
    frozen: Sequence[Frozen] = ()
    cancelled: Mapping[str, float] = field(default_factory=dict)
    followed: Mapping[str, Sequence[Seen]] = field(default_factory=dict)
    unended: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Verdict:
    """What is to be said. `lost`, `unexplained` and `broken` are sentences, one for each; empty is good.

    `runs` counts by state. Of the slots: `once`; `keyed`, made again under the same key; `late`, made again by a
    worker that was frozen before the call; `not_made`, as somebody decided or the run ended before. `doubts` counts
    the calls in doubt by who answered and how.
    """

    runs: Counter[str] = field(default_factory=Counter)
    once: int = 0
    keyed: int = 0
    late: int = 0
    not_made: int = 0
    doubts: Counter[str] = field(default_factory=Counter)
    turns: int = 0
    turns_again: int = 0
    streams: int = 0
    events: int = 0
    followed: int = 0
    lost: list[str] = field(default_factory=list)
    unexplained: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Whether nothing was lost, nothing is unexplained, and every stream is whole."""
        return not (self.lost or self.unexplained or self.broken)


def judge(evidence: Evidence) -> Verdict:
    """Judge everything."""
    verdict = Verdict()
    for script in evidence.scripts:
        _judge_run(verdict, script, evidence)
    _judge_effects(verdict, evidence)
    verdict.doubts = Counter(
        f"{reply.by} {reply.answer}" for reply in evidence.record.replies if reply.about == "in_doubt"
    )
    bought = Counter((turn.run, turn.number) for turn in evidence.record.turns)
    verdict.turns, verdict.turns_again = len(bought), sum(times - 1 for times in bought.values())
    for run_id, seen in evidence.followed.items():
        end = evidence.ends.get(run_id)
        if end is not None and not end.problem:
            verdict.followed += 1
            _add(verdict.broken, judge_follower(run_id, seen, end.stream))
    return verdict


# -- runs and their streams


def _judge_run(verdict: Verdict, script: Script, evidence: Evidence) -> None:
    run_id, end = script.run_id, evidence.ends.get(script.run_id)
    if end is None:
        verdict.runs["lost"] += 1
        verdict.lost.append(f"run {run_id} ({script.kind}) did not end: {evidence.unended.get(run_id, 'not seen')}")
        return
    problem = _wrong_end(script, end, cancelled=run_id in evidence.cancelled)
    if problem:
        verdict.runs["lost"] += 1
        verdict.lost.append(f"run {run_id} ({script.kind}) {problem}")
    else:
        verdict.runs[end.state] += 1
    verdict.streams += 1
    verdict.events += len(end.stream)
    _add(verdict.broken, end.problem and f"run {run_id}: its stream could not be read: {end.problem}")
    if not end.problem:
        _add(verdict.broken, judge_stream(run_id, end.stream, end.state))


def _wrong_end(script: Script, end: End, *, cancelled: bool) -> str:
    if end.state not in script.ends:
        return f"ended {end.state}, which its script does not: {end.error or 'no error is told'}"
    if script.ends[end.state] not in end.error:
        return f"ended {end.state} for another reason than its script's: {end.error or 'no error is told'}"
    if cancelled and end.state != "cancelled":
        return f"ended {end.state}, though its cancel was acknowledged before"
    return ""


def judge_stream(run_id: str, stream: Sequence[Seen], state: str) -> str:
    """Say what is wrong with a whole stream (EVT-2, EVT-4); empty if nothing is.

    Indices run from 0 without a hole, there is one terminal event, it is the last, and it says what the state says.
    """
    indices = [seen.index for seen in stream]
    if indices != list(range(len(stream))):
        hole = next(place for place, index in enumerate([*indices, -1]) if index != place)
        return f"run {run_id}: its stream has a hole or a repeat at index {hole}"
    ends = [seen.index for seen in stream if seen.kind in TERMINAL_KINDS]
    if ends != [len(stream) - 1]:
        return f"run {run_id}: its stream of {len(stream)} events has terminal events at {ends or 'no index'}"
    if stream[-1].kind != _KIND_OF_END.get(state):
        return f"run {run_id}: its stream ends with {stream[-1].kind!r} and its state is {state!r}"
    return ""


def judge_follower(run_id: str, seen: Sequence[Seen], stream: Sequence[Seen]) -> str:
    """Say what a live reader saw otherwise than the log has it; empty if nothing."""
    if [(each.index, each.kind) for each in seen] == [(each.index, each.kind) for each in stream]:
        return ""
    return f"run {run_id}: who followed it live saw {len(seen)} events, not the {len(stream)} of its log"


# -- effects


def _judge_effects(verdict: Verdict, evidence: Evidence) -> None:
    made: defaultdict[str, list[Effect]] = defaultdict(list)
    for effect in evidence.record.effects:
        made[effect.slot].append(effect)
    said: defaultdict[str, list[Reply]] = defaultdict(list)
    for reply in evidence.record.replies:
        said[reply.slot].append(reply)
    for script in evidence.scripts:
        completed = script.run_id in evidence.ends and evidence.ends[script.run_id].state == "completed"
        for slot, tool in script.slots.items():
            effects = made.pop(slot, [])
            if effects:
                _judge_slot(verdict, tool, effects, said[slot], evidence.frozen)
                cancelled = evidence.cancelled.get(script.run_id)
                _unexplained(verdict, effects, _after_cancel(effects, cancelled, evidence.frozen))
            elif completed and slot not in script.refused:
                verdict.unexplained.append(f"{slot} ({tool}) was never made, and the run says that it completed")
            else:
                verdict.not_made += 1
    verdict.unexplained += [f"{slot} was made, and no script has it" for slot in made]


def _judge_slot(
    verdict: Verdict, tool: str, effects: Sequence[Effect], said: Sequence[Reply], frozen: Sequence[Frozen]
) -> None:
    _unexplained(verdict, effects, _strange_call(tool, effects))
    _unexplained(verdict, effects, _not_approved(tool, effects, said))
    surplus = len(effects) - 1
    if not surplus:
        verdict.once += 1
    elif tool in IDEMPOTENT:
        verdict.keyed += 1
    elif surplus <= sum(1 for effect in effects if woke_late(effect, said, frozen)):
        verdict.late += 1
    else:
        answers = ", ".join(f"{reply.by} {reply.answer}" for reply in said if reply.about == "in_doubt")
        _unexplained(
            verdict,
            effects,
            f"was made {len(effects)} times, by the processes {', '.join(str(each.pid) for each in effects)}; "
            f"asked about it was: {answers or 'nobody'}",
        )


def _strange_call(tool: str, effects: Sequence[Effect]) -> str:
    calls = sorted({effect.call for effect in effects})
    if len(calls) > 1:
        return f"was made under several call ids: {', '.join(calls)}"
    other = {effect.tool for effect in effects} - {tool}
    return f"was made by another tool: {', '.join(sorted(other))}" if other else ""


def _not_approved(tool: str, effects: Sequence[Effect], said: Sequence[Reply]) -> str:
    if tool != APPROVED:
        return ""
    approvals = [reply for reply in said if reply.about == "approval"]
    first = min(effects, key=lambda effect: effect.began)
    if any(reply.answer == "approve" and reply.looked <= first.began for reply in approvals):
        return ""
    return "was made, and nobody had approved it"


def _after_cancel(effects: Sequence[Effect], cancelled: float | None, frozen: Iterable[Frozen]) -> str:
    if cancelled is None:
        return ""
    late = [
        effect
        for effect in effects
        if effect.began > cancelled + CANCEL_SECONDS
        and not any(nap.pid == effect.pid and nap.began <= effect.began <= nap.ended + WAKING_SECONDS for nap in frozen)
    ]
    return f"began {late[0].began - cancelled:.1f} s after its run's cancel was acknowledged" if late else ""


def woke_late(effect: Effect, said: Iterable[Reply], frozen: Iterable[Frozen]) -> bool:
    """Whether this effect is the one that DESIGN 2 cannot rule out, by the evidence.

    Its worker was frozen; while it was, somebody looked, did not find the effect and said "retry"; the worker woke
    after that or made the effect right after it woke.
    """
    naps = [nap for nap in frozen if nap.pid == effect.pid and nap.ended <= effect.time <= nap.ended + WAKING_SECONDS]
    retries = [reply.looked for reply in said if reply.about == "in_doubt" and reply.answer == "retry"]
    return any(nap.began <= looked <= effect.time for nap in naps for looked in retries)


def _unexplained(verdict: Verdict, effects: Sequence[Effect], problem: str) -> None:
    _add(verdict.unexplained, problem and f"{effects[0].slot} ({effects[0].tool}) {problem}")


def _add(sentences: list[str], sentence: str) -> None:
    if sentence:
        sentences.append(sentence)
