"""Runs that stand still: nobody looked after them, nobody can run them, or nobody decides."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from turnfleet.doctor.facts import Facts
from turnfleet.doctor.findings import Finding, ok, problem, warning
from turnfleet.doctor.texts import number, some, span
from turnfleet.store.commands.survey import Placed, Survey

LONG_WAIT_MS: Final = 300_000
OLD_QUESTION_MS: Final = 86_400_000
DEAD_LETTER: Final = "WorkerLost:"
"""How the error of a run begins that kept losing its workers."""

_STUCK: Final = {
    "running": "still running by the record, and the lease of their worker ended {ago} ago",
    "queued": "queued, and overdue to be offered again for {ago}",
    "paused": "paused, and past the expiry of what they ask for {ago}",
    "parked": "parked, and past their expiry for {ago}",
}


def judge(facts: Facts) -> Iterator[Finding]:
    """Return what is to be said of the runs; nothing when they could not be looked at."""
    survey = facts.of_fleet.survey
    if survey is None:
        return
    counted = ", ".join(f"{count} {state}" for state, count in survey.counts.items() if count)
    yield ok("runs.counts", counted or "no runs")
    yield from _stuck(survey, alive=bool(facts.of_fleet.workers))
    yield from _backlog(survey, alive=bool(facts.of_fleet.workers))
    yield from _parked(survey)
    yield from _undecided(survey)
    yield from _dead_letters(survey)


def _stuck(survey: Survey, *, alive: bool) -> Iterator[Finding]:
    if not survey.overdue:
        yield ok("runs.stuck", "every run was looked after in time")
        return
    by_state: defaultdict[str, list[Placed]] = defaultdict(list)
    for placed in survey.overdue:
        by_state[placed.run.state].append(placed)
    advice = (
        "a live worker's sweep looks after them within seconds: see the workers' logs for why it does not"
        if alive
        else "start a worker: it takes them up where they stood"
    )
    for state, runs in by_state.items():
        ago = span((survey.now_ms - runs[0].at_ms) / 1000)
        lost = {each.run.worker for each in runs if state == "running" and each.run.worker}
        whose = f"; workers {some(sorted(lost))} were killed, frozen or cut off" if lost else ""
        yield problem("runs.stuck", f"{_runs(runs)} {_STUCK[state].format(ago=ago)}{whose}", advice)
    more = survey.overdue_count - len(survey.overdue)
    if more:
        yield problem("runs.stuck", f"{number(more, 'more run')} nobody looked after in time", advice)


def _backlog(survey: Survey, *, alive: bool) -> Iterator[Finding]:
    """Look at the queued run that waits longest; one that waits for its time or its thread is as it should be."""
    ready = [
        each
        for each in survey.queued
        if (each.run.eta_ms or 0) <= survey.now_ms and not (each.run.thread_id and not each.run.offers)
    ]
    longest = max((survey.now_ms - _since(each) for each in ready), default=0)
    if alive and longest >= LONG_WAIT_MS:
        yield warning(
            "runs.backlog",
            f"the run that is queued longest waits for {span(longest / 1000)}",
            "start more workers, or give them more room (-c); turnfleet workers shows how busy they are",
        )


def _since(placed: Placed) -> int:
    return max(placed.run.changed_ms, placed.run.eta_ms or 0)


def _parked(survey: Survey) -> Iterator[Finding]:
    reasons: defaultdict[str, list[Placed]] = defaultdict(list)
    for placed in survey.parked:
        missing = ", ".join(f"{kind} {name}" for kind, names in placed.run.missing.items() for name in names)
        reasons[missing or placed.run.parked or "no reason was kept"].append(placed)
    for reason, runs in reasons.items():
        yield warning(
            "runs.parked",
            f"{_runs(runs)} parked: no live worker has all they need ({reason})",
            "start a worker that has it (they go on by themselves then), or cancel them",
        )


def _undecided(survey: Survey) -> Iterator[Finding]:
    old = [each for each in survey.waiting if survey.now_ms - each.at_ms >= OLD_QUESTION_MS]
    if old:
        kinds = Counter(
            interrupt.kind for each in old for interrupt in each.run.interrupts if interrupt.decision is None
        )
        asked = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        longest = span((survey.now_ms - old[0].at_ms) / 1000)
        yield warning(
            "runs.undecided",
            f"{_runs(old)} wait for people since more than a day ({asked}; longest {longest})",
            "turnfleet inbox lists what is asked; give tools an expires_in with a decision for when nobody comes",
        )


def _dead_letters(survey: Survey) -> Iterator[Finding]:
    dead = [each for each in survey.failed if (each.run.error or "").startswith(DEAD_LETTER)]
    if dead:
        yield warning(
            "runs.dead",
            f"{_runs(dead)} failed because worker after worker was lost while at work on them",
            "look at the logs of these workers (out of memory?), mend the cause, then turnfleet retry RUN",
        )


def _runs(placed: Sequence[Placed]) -> str:
    return f"{number(len(placed), 'run')} ({some(each.run.run_id for each in placed)})"
