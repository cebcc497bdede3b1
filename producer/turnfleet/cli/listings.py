"""What the fleet has: `runs`, `inbox`, `workers`."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import click

from turnfleet.cli.options import Connection, connected, json_option
from turnfleet.cli.printing import arguments_line, echo_json, echo_table, one_line, thawed
from turnfleet.cli.teaching import Taught
from turnfleet.status import RunInterrupt, RunStatus
from turnfleet_kernel.contracts.json import usage_to_json

STATES = ("queued", "parked", "running", "paused", "completed", "failed", "cancelled", "expired")


@click.command(
    cls=Taught,
    short_help="List runs, newest first.",
    examples=(
        ("turnfleet runs --state paused", "newest first; in a pipe, fields are separated by tabs"),
        ("turnfleet runs --tenant acme --limit 200 --json", "with a cursor for the next page"),
    ),
    codes=(2, 3),
)
@click.option("--state", type=click.Choice(STATES), help="Only runs in this state.")
@click.option("--tenant", help="Only this tenant's runs.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 1000), help="At most so many.")
@click.option("--cursor", help="Go on where an earlier page ended.")
@json_option("Print one JSON object.")
@connected
def runs(
    connection: Connection, *, state: str | None, tenant: str | None, limit: int, cursor: str | None, json_out: bool
) -> None:
    """List runs, newest first."""
    with connection.open() as fleet:
        page = fleet.runs(state=state, tenant=tenant, limit=limit, cursor=cursor)
    if json_out:
        echo_json({"runs": [status_json(run) for run in page], "cursor": page.cursor})
        return
    rows = [
        (run.run_id, run.state, run.plan_name, str(run.attempts), _when(run.created_at), one_line(_about(run), 60))
        for run in page
    ]
    echo_table(("run", "state", "plan", "attempts", "created (UTC)", "about"), rows)
    _say_more(page.cursor)


@click.command(
    cls=Taught,
    short_help="List what waits for people.",
    examples=(("turnfleet inbox --role finance", "what somebody of finance may decide"),),
    codes=(2, 3),
)
@click.option("--role", help="Only what this role may decide.")
@click.option("--tenant", help="Only this tenant's runs.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 1000), help="At most so many runs.")
@click.option("--cursor", help="Go on where an earlier page ended.")
@json_option("Print one JSON object.")
@connected
def inbox(
    connection: Connection, *, role: str | None, tenant: str | None, limit: int, cursor: str | None, json_out: bool
) -> None:
    """List what waits for people, latest first."""
    with connection.open() as fleet:
        page = fleet.interrupts(role=role, tenant=tenant, limit=limit, cursor=cursor)
    if json_out:
        echo_json({"interrupts": [interrupt_json(each) for each in page], "cursor": page.cursor})
        return
    rows = [
        (each.run_id, each.id, each.kind, ", ".join(each.roles), _when(each.expires_at), interrupt_line(each))
        for each in page
    ]
    echo_table(("run", "interrupt", "kind", "roles", "until (UTC)", "what is asked"), rows)
    _say_more(page.cursor)


@click.command(
    cls=Taught,
    short_help="List the live workers, and what they can run.",
    examples=(("turnfleet workers", "who is alive, how busy, and what each can run"),),
    codes=(2, 3),
)
@json_option("Print one JSON object.")
@connected
def workers(connection: Connection, json_out: bool) -> None:
    """List the live workers and what they can run."""
    with connection.open() as fleet:
        alive = fleet.workers()
    if json_out:
        echo_json({"workers": [thawed(worker) for worker in alive]})
        return
    rows = [
        (str(body.get("worker", "")), str(body.get("in_flight", "")), _names(body, "models"), _names(body, "tools"))
        for body in alive
    ]
    echo_table(("worker", "in flight", "models", "tools"), rows)
    if not alive:
        click.echo("no worker is alive; start one with: turnfleet worker --app module:registry", err=True)


def status_json(run: RunStatus) -> dict[str, Any]:
    """Return a status as JSON, times as ISO 8601."""
    return {
        "run_id": run.run_id,
        "state": run.state,
        "plan_id": run.plan_id,
        "plan_name": run.plan_name,
        "queue": run.queue,
        "priority": run.priority,
        "thread_id": run.thread_id,
        "tenant": run.tenant,
        "metadata": thawed(run.metadata),
        "attempts": run.attempts,
        "worker": run.worker,
        "created_at": _iso(run.created_at),
        "started_at": _iso(run.started_at),
        "ended_at": _iso(run.ended_at),
        "eta": _iso(run.eta),
        "expires_at": _iso(run.expires_at),
        "running_seconds": run.running_seconds,
        "interrupts": [interrupt_json(each) for each in run.interrupts],
        "usage": None if run.usage is None else usage_to_json(run.usage),
        "error": run.error,
        "cancel_reason": run.cancel_reason,
        "missing": thawed(run.missing),
        "next_index": run.next_index,
    }


def interrupt_json(interrupt: RunInterrupt) -> dict[str, Any]:
    """Return an open interrupt as JSON."""
    return {
        "run_id": interrupt.run_id,
        "id": interrupt.id,
        "kind": interrupt.kind,
        "tool": interrupt.tool,
        "arguments": thawed(interrupt.arguments),
        "question": interrupt.question,
        "schema": thawed(interrupt.schema),
        "digest": interrupt.digest,
        "roles": list(interrupt.roles),
        "expires_at": _iso(interrupt.expires_at),
    }


def interrupt_line(interrupt: RunInterrupt) -> str:
    """Say on one line what is asked."""
    if interrupt.question is not None:
        return one_line(interrupt.question)
    return f"{interrupt.tool}  {arguments_line(interrupt.arguments or {})}".strip()


def _about(run: RunStatus) -> str:
    if run.error:
        return run.error
    if run.interrupts:
        return f"waits for {len(run.interrupts)} decision{'s' if len(run.interrupts) > 1 else ''}"
    return run.parked_because or (run.cancel_reason or "")


def _names(body: Mapping[str, Any], what: str) -> str:
    return one_line(", ".join(sorted(body.get(what, ()))), 80)


def _when(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}"


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _say_more(cursor: str | None) -> None:
    if cursor is not None:
        click.echo(f"more: --cursor {cursor}", err=True)
