"""Looking at runs without changing them: status, outcome, events, and pages of many."""

import json
from collections.abc import Sequence
from typing import Any, cast

from turnfleet.errors import EventsTrimmed
from turnfleet.store.command import Command, Reply, args, header, load_json, on_run, tag, text, whole
from turnfleet.store.keys import Keys, validate_id
from turnfleet.store.paging import Page, Position, merge_pages
from turnfleet.store.people import read_interrupts
from turnfleet.store.records import Definition, EventsPage, InboxEntry, Previous, Snapshot
from turnfleet.store.transitions import STATES

_FIELDS = (
    "state", "plan_id", "plan_name", "digest", "queue", "priority", "thread", "tenant", "metadata", "attempt",
    "losses", "previous", "offers", "offered", "worker", "created", "started", "claimed", "changed", "ended",
    "eta", "expires", "deadline", "ran", "cancel", "missing", "parked", "error", "usage", "next", "outcome",
)  # fmt: skip
NO_OUTCOME = tuple(field.encode() for field in _FIELDS[:-1])
_ALL = tuple(field.encode() for field in _FIELDS)
_SCAN = 2_000  # index entries that one call looks at, at most: a rare match must not hold the server up


def read_snapshot(run_id: str, values: Sequence[bytes | None], interrupts: Sequence[bytes]) -> Snapshot:
    """Return a run as a script tells of it: its `NO_OUTCOME` fields (an outcome may follow), and its interrupts."""
    record: dict[str, bytes | None] = dict(zip(_FIELDS, values, strict=False))

    def said(field: str) -> str:
        return text(record[field]) or ""

    deadline = text(record["deadline"])
    missing = load_json(record["missing"], {})
    return Snapshot(
        run_id=run_id,
        state=said("state"),
        plan_id=said("plan_id"),
        plan_name=said("plan_name"),
        digest=said("digest"),
        queue=said("queue"),
        priority=int(said("priority")),
        thread_id=text(record["thread"]),
        tenant=text(record["tenant"]),
        metadata=load_json(record["metadata"], {}),
        attempt=int(said("attempt")),
        losses=int(said("losses")),
        previous=cast("Previous", said("previous")),
        offers=int(said("offers")),
        offered_ms=whole(record["offered"]),
        worker=text(record["worker"]),
        created_ms=int(said("created")),
        started_ms=whole(record["started"]),
        claimed_ms=whole(record["claimed"]),
        changed_ms=int(said("changed")),
        ended_ms=whole(record["ended"]),
        eta_ms=whole(record["eta"]),
        expires_ms=whole(record["expires"]),
        deadline_seconds=None if deadline is None else float(deadline),
        ran_ms=int(said("ran")),
        cancel=text(record["cancel"]),
        missing={kind: tuple(names) for kind, names in missing.items()},
        parked=text(record["parked"]),
        error=text(record["error"]),
        usage=load_json(record["usage"]),
        next_index=int(said("next")),
        interrupts=read_interrupts(interrupts),
        outcome=load_json(record.get("outcome")),
    )


def _look(keys: Keys, run_id: str, fields: Sequence[bytes]) -> Command[Snapshot]:
    validate_id("run id", run_id)

    def decode(reply: Reply) -> Snapshot:
        tag(run_id, reply)
        return read_snapshot(run_id, reply[1], reply[2])

    return on_run("look", keys, run_id, args("1", list(fields)), decode)


def status(keys: Keys, run_id: str) -> Command[Snapshot]:
    """Give what a person may see of a run, with its interrupts, without its outcome. Raises `UnknownRun`."""
    return _look(keys, run_id, NO_OUTCOME)


def outcome(keys: Keys, run_id: str) -> Command[Snapshot]:
    """Give what `status` gives, and the outcome when the run completed. Raises `UnknownRun`."""
    return _look(keys, run_id, _ALL)


def definition(keys: Keys, run_id: str) -> Command[Definition]:
    """Give what a run was asked to do. Raises `UnknownRun`."""

    def decode(reply: Reply) -> Definition:
        tag(run_id, reply)
        plan, request = reply[1]
        return Definition(load_json(plan), load_json(request))

    return on_run("look", keys, run_id, args("0", [b"plan", b"request"]), decode)


def journal(keys: Keys, run_id: str) -> Command[tuple[dict[str, Any], ...]]:
    """Give a run's journal in order, as its worker wrote it. Raises `UnknownRun`."""
    validate_id("run id", run_id)

    def decode(reply: Reply) -> tuple[dict[str, Any], ...]:
        tag(run_id, reply)
        return tuple(load_json(entry) for entry in reply[1])

    return on_run("journal", keys, run_id, (), decode)


def listing(
    keys: Keys,
    shard: int,
    *,
    state: str | None = None,
    tenant: str | None = None,
    before: Position | None = None,
    limit: int = 50,
) -> Command[Page[Snapshot]]:
    """Give a page of a shard's runs, newest created first; `merge_pages` joins the shards' pages."""
    if state is not None and state not in STATES:
        raise ValueError(f"state {state!r} does not exist: use one of {', '.join(STATES)}")
    if tenant is not None:
        indexes = [f"t:{validate_id('tenant', tenant)}".encode()]
    else:
        indexes = [f"s:{each}".encode() for each in ([state] if state else STATES)]
    wanted = state if tenant is not None else None
    arguments = args(list(indexes), wanted, *_before(before), limit + 1, _SCAN, list(NO_OUTCOME))

    def decode(reply: Reply) -> Page[Snapshot]:
        pages = [
            Page(
                tuple(read_snapshot(run.decode(), values, people) for run, values, people in rows),
                _read_position(stopped),
            )
            for rows, stopped in reply
        ]
        return merge_pages(pages, limit)

    return Command("listing", keys.prefix(shard), (*header(keys), *arguments), decode)


def inbox(
    keys: Keys,
    shard: int,
    *,
    role: str | None = None,
    tenant: str | None = None,
    before: Position | None = None,
    limit: int = 50,
) -> Command[Page[InboxEntry]]:
    """Give a page of a shard's runs that wait for people, latest paused first, each with its open interrupts.

    With `role`, only interrupts that this role may decide count (those without roles included).
    """
    arguments = args(role, tenant, *_before(before), limit + 1, _SCAN)

    def decode(reply: Reply) -> Page[InboxEntry]:
        rows, stopped = reply
        entries = tuple(_read_entry(role, row) for row in rows)
        return merge_pages([Page(entries, _read_position(stopped))], limit)

    return Command("inbox", keys.prefix(shard), (*header(keys), *arguments), decode)


def _read_entry(role: str | None, row: Reply) -> InboxEntry:
    run, since, plan_name, tenant, people = row
    interrupts = tuple(
        each for each in read_interrupts(people) if each.open and (role is None or not each.roles or role in each.roles)
    )
    return InboxEntry(run.decode(), plan_name.decode(), text(tenant), int(since), interrupts)


def _before(position: Position | None) -> tuple[str, str]:
    return ("", "") if position is None else (str(position[0]), position[1])


def _read_position(reply: Any) -> Position | None:
    return None if reply is None else (int(reply[0]), reply[1].decode())


def read_events(keys: Keys, run_id: str, *, after: int = -1, count: int = 200) -> Command[EventsPage]:
    """Give a run's events with an index above `after`, from up to `count` batches (EVT-2).

    Raises `UnknownRun`, and `EventsTrimmed` when the next event wanted has left the log.
    """
    validate_id("run id", run_id)

    def decode(reply: Reply) -> EventsPage:
        tag(run_id, reply)
        _, state, next_index, earliest, batches = reply
        first = json.loads(earliest[0])[0]["index"] if earliest else int(next_index)
        if after + 1 < first:
            raise EventsTrimmed(run_id, first)
        events = tuple(event for batch in batches for event in json.loads(batch) if event["index"] > after)
        return EventsPage(events, first, int(next_index), state.decode())

    return on_run("read_events", keys, run_id, args(max(after, -1), count), decode)
