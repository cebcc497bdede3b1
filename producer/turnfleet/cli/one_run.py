"""One run, looked at or told something: `show`, `retry`, `cancel`."""

import json

import click

from turnfleet.cli import failures
from turnfleet.cli.completion import run_ids
from turnfleet.cli.options import Connection, connected, json_option
from turnfleet.cli.printing import echo_json, safe
from turnfleet.cli.shapes import STATUS_SHAPE, decision_line, interrupt_line, status_json
from turnfleet.cli.teaching import Taught


@click.command(
    cls=Taught,
    short_help="Show a run's state, what it asks, who decided, and its answer.",
    examples=(
        ("turnfleet show ticket-1001", "its state, what it asks, who decided what, what it answered"),
        ("turnfleet show ticket-1001 --json", "the same for a program"),
        ("turnfleet show -- -odd-", "an id that begins with a dash goes after --"),
    ),
    shape={**STATUS_SHAPE, "text": "what the completed run answered"},
    codes=(2, 3, 4),
)
@click.argument("run_id", metavar="RUN", shell_complete=run_ids())
@json_option("Print one JSON object.")
@connected
def show(connection: Connection, run_id: str, json_out: bool) -> None:
    """Show the state of RUN, what it asks, who decided what and when, and what it answered."""
    with connection.open() as fleet:
        run = fleet.run(run_id)
        status = run.status()
        text = run.result(timeout=0).text if status.state == "completed" else None
    body = status_json(status)
    if json_out:
        echo_json({**body, "text": text})
        return
    for name, value in body.items():
        if name not in {"interrupts", "decided"} and value not in (None, "", {}, []):
            shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            click.echo(f"{name.replace('_', ' '):<16} {safe(shown)}")
    for interrupt in status.interrupts:
        click.echo(f"{'waits':<16} {interrupt.id}  {interrupt_line(interrupt)}")
    for interrupt in status.decided:
        click.echo(f"{'decided':<16} {interrupt.id}  {interrupt_line(interrupt)}  {decision_line(interrupt)}")
    if text:
        click.echo(f"{'text':<16} {safe(text)}")


@click.command(
    cls=Taught,
    short_help="Let a failed run go on.",
    examples=(
        ("turnfleet retry ticket-1002", "it goes on from where its journal ends"),
        (
            'turnfleet runs --state failed | cut -f1 | while read -r RUN; do turnfleet retry -- "$RUN"; done',
            "all that failed",
        ),
    ),
    shape={"run_id": "the run's id", "state": "its state now"},
    codes=(2, 3, 4, 5),
    meant={5: "the run has not failed"},
)
@click.argument("run_id", metavar="RUN", shell_complete=run_ids("failed"))
@json_option("Print one JSON object.")
@connected
def retry(connection: Connection, run_id: str, json_out: bool) -> None:
    """Let the failed RUN go on from where its journal ends: what was finished is not done again."""
    with connection.open() as fleet:
        run = fleet.run(run_id)
        run.retry()
        state = run.status().state
    if json_out:
        echo_json({"run_id": run_id, "state": state})
    else:
        click.echo(f"run {run_id} is {state}")


@click.command(
    cls=Taught,
    short_help="Cancel a run.",
    examples=(('turnfleet cancel ticket-1003 --reason "the customer withdrew"', "no further tool starts after this"),),
    shape={"run_id": "the run's id", "cancelled": "whether it had not ended before", "state": "its state now"},
    codes=(1, 2, 3, 4),
    meant={1: "it had ended before"},
)
@click.argument("run_id", metavar="RUN", shell_complete=run_ids("queued", "parked", "running", "paused"))
@click.option("--reason", default="", metavar="TEXT", help="Why; kept with the run.")
@json_option("Print one JSON object.")
@connected
def cancel(connection: Connection, run_id: str, reason: str, json_out: bool) -> None:
    """Cancel RUN: at once when nobody executes it, else before its next tool call."""
    with connection.open() as fleet:
        run = fleet.run(run_id)
        accepted = run.cancel(reason=reason)
        state = run.status().state
    if json_out:
        echo_json({"run_id": run_id, "cancelled": accepted, "state": state})
    elif accepted:
        click.echo(f"run {run_id} is being cancelled" if state == "running" else f"run {run_id} is {state}")
    else:
        click.echo(f"run {run_id} had ended before: it is {state}")
    if not accepted:
        raise click.exceptions.Exit(failures.FAILED)
