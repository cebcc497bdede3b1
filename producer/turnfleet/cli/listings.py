"""What the fleet has: `runs`, `inbox`, `workers`."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import click

from turnfleet.cli.options import Connection, connected, json_option
from turnfleet.cli.printing import echo_json, echo_table, one_line, thawed
from turnfleet.cli.shapes import INTERRUPT_SHAPE, interrupt_json, interrupt_line, status_json
from turnfleet.cli.teaching import Taught
from turnfleet.status import RunStatus
from turnfleet.store.transitions import RunState

STATES = ("queued", "parked", "running", "paused", "completed", "failed", "cancelled", "expired")
_CAN = ("models", "tools")


@click.command(
    cls=Taught,
    short_help="List runs, newest first.",
    examples=(
        ("turnfleet runs --state paused", "newest first; in a pipe, fields are separated by tabs"),
        ("turnfleet runs --tenant acme --limit 200 --json", "with a cursor for the next page"),
    ),
    shape={"runs": "for each what turnfleet show --json prints, without text", "cursor": "for --cursor; null: no more"},
    codes=(2, 3),
)
@click.option("--state", type=click.Choice(STATES), help="Only runs in this state.")
@click.option("--tenant", help="Only this tenant's runs.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 1000), help="At most so many.")
@click.option("--cursor", help="Go on where an earlier page ended.")
@json_option("Print one JSON object.")
@connected
def runs(
    connection: Connection,
    *,
    state: RunState | None,
    tenant: str | None,
    limit: int,
    cursor: str | None,
    json_out: bool,
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
    shape={"interrupts": "for each: " + ", ".join(INTERRUPT_SHAPE), "cursor": "for --cursor; null: no more"},
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
    shape={
        "workers": "what each announces: worker, node (its name in Celery), version, models, tools, queues, in_flight, "
        "slots, clock, ..."
    },
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
        (str(body.get("worker", "")), str(body.get("node") or ""), _load(body), *(_names(body, each) for each in _CAN))
        for body in alive
    ]
    echo_table(("worker", "node", "in flight", *_CAN), rows)
    if not alive:
        click.echo("no worker is alive; start one with: turnfleet worker --app module:registry", err=True)


def _about(run: RunStatus) -> str:
    if run.error:
        return run.error
    if run.interrupts:
        return f"waits for {len(run.interrupts)} decision{'s' if len(run.interrupts) > 1 else ''}"
    return run.parked_because or (run.cancel_reason or "")


def _load(body: Mapping[str, Any]) -> str:
    """Return how many runs a worker has, and how many it takes where it says so."""
    slots = body.get("slots")
    return f"{body.get('in_flight', '')}" + ("" if slots is None else f" of {slots}")


def _names(body: Mapping[str, Any], what: str) -> str:
    return one_line(", ".join(sorted(body.get(what, ()))), 80)


def _when(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}"


def _say_more(cursor: str | None) -> None:
    if cursor is not None:
        click.echo(f"more: --cursor {cursor}", err=True)
