"""What a handle does with its run, and a fleet with its many: each a short flow over the store's commands."""

import json
from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import ValidationError

from turnfleet.client.given import adapter_of, check_page
from turnfleet.client.setup import Setup
from turnfleet.client.steps import Flow, execute, execute_all
from turnfleet.client.threads import pass_turn, publish_or_leave
from turnfleet.errors import RunCancelled, RunError, RunExpired, RunFailed, RunPaused
from turnfleet.interrupt import RunInterrupt
from turnfleet.status import Page, RunStatus, read_inbox, read_status
from turnfleet.store import commands
from turnfleet.store.command import Command
from turnfleet.store.paging import Page as ShardPage
from turnfleet.store.paging import Position, Positioned, from_cursor, merge_pages, share_of, to_cursor
from turnfleet.store.records import InboxEntry, Snapshot
from turnfleet.store.transitions import TERMINAL_STATES
from turnfleet.wire.envelope import explain
from turnfleet_kernel.contracts.json import outcome_from_json
from turnfleet_kernel.contracts.values import InvocationOutcome

R = TypeVar("R", bound=Positioned)


def status(setup: Setup, run_id: str) -> Flow[RunStatus]:
    """Give the run's status. Raises `UnknownRun`."""
    return read_status((yield from execute(commands.status(setup.keys, run_id))))


def cancel(setup: Setup, run_id: str, reason: str) -> Flow[bool]:
    """Ask for the run's end; False if it had ended. Raises `UnknownRun`."""
    done = yield from execute(commands.cancel(setup.keys, run_id, reason=reason, ttl_ms=setup.retention_ms))
    if done.accepted and done.state in TERMINAL_STATES and done.thread_id is not None:
        yield from pass_turn(setup, done.thread_id, run_id)
    return done.accepted


def retry(setup: Setup, run_id: str) -> Flow[None]:
    """Let a failed run go on. Raises `UnknownRun`, `IllegalTransition`."""
    offer = yield from execute(commands.retry(setup.keys, run_id))
    yield from publish_or_leave(setup, offer)


def delete(setup: Setup, run_id: str) -> Flow[bool]:
    """Forget a run that ended; False if there was none. Raises `IllegalTransition`."""
    return (yield from execute(commands.delete(setup.keys, run_id)))


def runs(
    setup: Setup, *, state: str | None, tenant: str | None, limit: int, cursor: str | None
) -> Flow[Page[RunStatus]]:
    """Give a page of runs, newest first. Raises `InvalidId` for what is no cursor."""
    check_page(limit, state=state, tenant=tenant)

    def newest(shard: int, before: Position | None, rows: int) -> Command[ShardPage[Snapshot]]:
        return commands.listing(setup.keys, shard, state=state, tenant=tenant, before=before, limit=rows)

    page = yield from _page(setup, newest, limit, from_cursor(cursor))
    return Page(tuple(map(read_status, page.rows)), to_cursor(page.stopped))


def inbox(
    setup: Setup, *, role: str | None, tenant: str | None, limit: int, cursor: str | None
) -> Flow[Page[RunInterrupt]]:
    """Give the open interrupts of a page of `limit` waiting runs, latest paused first."""
    check_page(limit, role=role, tenant=tenant)

    def latest(shard: int, before: Position | None, rows: int) -> Command[ShardPage[InboxEntry]]:
        return commands.inbox(setup.keys, shard, role=role, tenant=tenant, before=before, limit=rows)

    page = yield from _page(setup, latest, limit, from_cursor(cursor))
    return Page(tuple(each for entry in page.rows for each in read_inbox(entry)), to_cursor(page.stopped))


def _page(
    setup: Setup,
    ask: Callable[[int, Position | None, int], Command[ShardPage[R]]],
    limit: int,
    before: Position | None,
) -> Flow[ShardPage[R]]:
    """Put a page together: from a share of each shard, and where these do not fill it, from a whole page of each."""
    found: tuple[R, ...] = ()
    for rows in (share_of(limit, setup.keys.shards), limit):
        pages = yield from execute_all([ask(shard, before, rows) for shard in range(setup.keys.shards)])
        page = merge_pages(pages, limit - len(found))
        found, before = found + page.rows, page.stopped
        if before is None or len(found) == limit:
            break
    return ShardPage(found, before)


def workers(setup: Setup) -> Flow[tuple[dict[str, Any], ...]]:
    """Give what live workers announce."""
    return (yield from execute(commands.workers(setup.keys)))


def read_result(snapshot: Snapshot, output: Any) -> InvocationOutcome[Any]:
    """Return the outcome of a run that completed, its output as an `output` when that is a type.

    Raises what became of it instead: `RunPaused`, `RunFailed`, `RunCancelled`, `RunExpired`.
    """
    run_id = snapshot.run_id
    match snapshot.state:
        case "paused":
            raise RunPaused(run_id, read_status(snapshot).interrupts)
        case "failed":
            raise RunFailed(run_id, snapshot.error or "")
        case "cancelled":
            raise RunCancelled(run_id, snapshot.cancel or snapshot.error or "")
        case "expired":
            raise RunExpired(run_id, snapshot.error or "")
    outcome = outcome_from_json(snapshot.outcome or {})
    if output is None:
        return outcome
    try:
        value = adapter_of(output).validate_json(json.dumps(outcome.output))
    except ValidationError as error:
        name = getattr(output, "__name__", str(output))
        message = (
            f"run {run_id!r} completed (stop reason {outcome.stop_reason}), but its output is no {name}: "
            f"{explain(error)}; fleet.run({run_id!r}).result() gives it as it is"
        )
        raise RunError(run_id, message) from None
    return InvocationOutcome(
        text=outcome.text,
        output=value,
        messages=outcome.messages,
        tool_outcomes=outcome.tool_outcomes,
        usage=outcome.usage,
        run_id=outcome.run_id,
        duration_ms=outcome.duration_ms,
        stop_reason=outcome.stop_reason,
    )
