"""How a shard stands as a whole, for a diagnosis: counts by state, and the few runs that somebody should look at."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from turnfleet.store.command import Command, Reply, args, header
from turnfleet.store.commands.looking import NO_OUTCOME, read_snapshot
from turnfleet.store.keys import Keys
from turnfleet.store.records import Snapshot
from turnfleet.store.transitions import STATES


@dataclass(frozen=True, slots=True)
class Placed:
    """A run, and the time (ms) by which an index has it there: when it was due, or since when it waits."""

    at_ms: int
    run: Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """How a shard, or a fleet, stood at `now_ms`.

    `counts`: runs by state. `overdue`: those that nobody looked at when they were due (a lease ended, an offer or an
    expiry came), most overdue first; `overdue_count` counts them all. `queued` and `parked`: oldest created first.
    `waiting`: with open interrupts, longest paused first. `failed`: newest created first.
    """

    now_ms: int
    counts: Mapping[str, int]
    overdue_count: int
    overdue: tuple[Placed, ...]
    queued: tuple[Placed, ...]
    parked: tuple[Placed, ...]
    waiting: tuple[Placed, ...]
    failed: tuple[Placed, ...]


def survey(keys: Keys, shard: int, *, late_ms: int, limit: int = 20) -> Command[Survey]:
    """Give how a shard stands; of each list at most `limit`, and as overdue what is so by `late_ms` or more."""
    arguments = args([state.encode() for state in STATES], list(NO_OUTCOME), limit, late_ms)

    def decode(reply: Reply) -> Survey:
        now, counts, overdue_count, *lists = reply
        overdue, queued, parked, waiting, failed = ([_placed(row) for row in rows] for rows in lists)
        return Survey(
            now_ms=int(now),
            counts=dict(zip(STATES, map(int, counts), strict=True)),
            overdue_count=int(overdue_count),
            overdue=tuple(overdue),
            queued=tuple(queued),
            parked=tuple(parked),
            waiting=tuple(waiting),
            failed=tuple(failed),
        )

    return Command("survey", keys.prefix(shard), (*header(keys), *arguments), decode)


def merge_surveys(surveys: Iterable[Survey]) -> Survey:
    """Return how the shards stand together. There must be one at least."""
    shards = tuple(surveys)
    return Survey(
        now_ms=max(each.now_ms for each in shards),
        counts={state: sum(each.counts[state] for each in shards) for state in STATES},
        overdue_count=sum(each.overdue_count for each in shards),
        overdue=_sorted(placed for each in shards for placed in each.overdue),
        queued=_sorted(placed for each in shards for placed in each.queued),
        parked=_sorted(placed for each in shards for placed in each.parked),
        waiting=_sorted(placed for each in shards for placed in each.waiting),
        failed=_sorted(placed for each in shards for placed in each.failed)[::-1],
    )


def _sorted(placed: Iterable[Placed]) -> tuple[Placed, ...]:
    return tuple(sorted(placed, key=lambda each: (each.at_ms, each.run.run_id)))


def _placed(row: Reply) -> Placed:
    run, at, values, people = row
    return Placed(round(float(at)), read_snapshot(run.decode(), values, people))
