"""One run at a time: `enqueue`, `tail`, `show`, `retry`, `cancel`."""

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import click

from turnfleet.cli import failures
from turnfleet.cli.display import display_for
from turnfleet.cli.listings import interrupt_line, status_json
from turnfleet.cli.options import Connection, connected
from turnfleet.cli.printing import echo_json, safe
from turnfleet_kernel.contracts.events import TERMINAL_KINDS
from turnfleet_kernel.contracts.json import event_to_json
from turnfleet_kernel.contracts.spec import PlanSpec

if TYPE_CHECKING:
    from turnfleet import Run


@click.command()
@click.argument("plan", type=click.File("r", encoding="utf-8"))
@click.argument("prompt")
@click.option("--run-id", metavar="ID", help="The run's id; the same id and request is enqueued once.")
@click.option("--thread", metavar="ID", help="Runs of one thread go one after the other.")
@click.option("--tenant", metavar="NAME", help="Whose run it is.")
@click.option("--priority", type=click.IntRange(0, 9), default=5, show_default=True, help="9 goes first.")
@click.option("--queue", metavar="NAME", help="The broker's queue (else the fleet's own).")
@click.option("--countdown", type=click.FloatRange(min=0), metavar="SECONDS", help="Start no earlier than this.")
@click.option("--expires", type=click.FloatRange(min=0), metavar="SECONDS", help="Not finished by then: expired.")
@click.option("--deadline", type=click.FloatRange(min=0), metavar="SECONDS", help="Budget of running time.")
@click.option("--metadata", multiple=True, metavar="KEY=VALUE", help="Kept with the run. Repeatable.")
@click.option("--follow", is_flag=True, help="Show the run's events until it ends or asks something.")
@click.option("--json", "json_out", is_flag=True, help="Print JSON instead of the run's id.")
@connected
def enqueue(
    connection: Connection,
    *,
    plan: Any,
    prompt: str,
    run_id: str | None,
    thread: str | None,
    tenant: str | None,
    priority: int,
    queue: str | None,
    countdown: float | None,
    expires: float | None,
    deadline: float | None,
    metadata: Sequence[str],
    follow: bool,
    json_out: bool,
) -> None:
    """Enqueue a run of the plan in the JSON file PLAN with PROMPT, and print its id; "-" for either reads stdin."""
    if plan.name == "<stdin>" and prompt == "-":
        raise click.UsageError("only one of PLAN and PROMPT can come from stdin")
    spec = PlanSpec.model_validate(_document(plan.read(), plan.name))
    text = sys.stdin.read() if prompt == "-" else prompt
    with connection.open() as fleet:
        run = fleet.enqueue(
            spec,
            text,
            run_id=run_id,
            thread_id=thread,
            tenant=tenant,
            priority=priority,
            queue=queue,
            countdown=countdown,
            expires=expires,
            deadline_seconds=deadline,
            metadata=dict(_pair(each) for each in metadata),
        )
        if json_out:
            echo_json({"run_id": run.run_id, "state": run.status().state})
        else:
            click.echo(run.run_id)
        if follow:
            _follow(run, after=-1, until="pause", timeout=None, json_out=json_out)


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option("--after", default=-1, show_default=True, help="Only events with an index above this.")
@click.option(
    "--until", type=click.Choice(("terminal", "pause")), default="terminal", show_default=True, help="Stop at."
)
@click.option(
    "--timeout", type=click.FloatRange(min=0), metavar="SECONDS", help="Give up when nothing comes this long."
)
@click.option("--json", "json_out", is_flag=True, help="Print each event as one line of JSON.")
@connected
def tail(
    connection: Connection,
    *,
    run_id: str,
    after: int,
    until: Literal["terminal", "pause"],
    timeout: float | None,
    json_out: bool,
) -> None:
    """Show the events of RUN, the past ones first, and follow it. Exit code 1 when it failed or was cancelled."""
    with connection.open() as fleet:
        _follow(fleet.run(run_id), after=after, until=until, timeout=timeout, json_out=json_out)


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option("--json", "json_out", is_flag=True, help="Print one JSON object.")
@connected
def show(connection: Connection, run_id: str, json_out: bool) -> None:
    """Show the state of RUN, what it asks, and what it answered."""
    with connection.open() as fleet:
        run = fleet.run(run_id)
        status = run.status()
        text = run.result(timeout=0).text if status.state == "completed" else None
    if json_out:
        echo_json({**status_json(status), "text": text})
        return
    body = status_json(status)
    for name, value in body.items():
        if name != "interrupts" and value not in (None, "", {}, []):
            shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            click.echo(f"{name.replace('_', ' '):<16} {safe(shown)}")
    for interrupt in status.interrupts:
        click.echo(f"{'waits':<16} {interrupt.id}  {interrupt_line(interrupt)}")
    if text:
        click.echo(f"{'text':<16} {safe(text)}")


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option("--json", "json_out", is_flag=True, help="Print one JSON object.")
@connected
def retry(connection: Connection, run_id: str, json_out: bool) -> None:
    """Let the failed RUN go on from where its journal ends. Exit code 5 when it has not failed."""
    with connection.open() as fleet:
        run = fleet.run(run_id)
        run.retry()
        state = run.status().state
    if json_out:
        echo_json({"run_id": run_id, "state": state})
    else:
        click.echo(f"run {run_id} is {state}")


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option("--reason", default="", metavar="TEXT", help="Why; kept with the run.")
@click.option("--json", "json_out", is_flag=True, help="Print one JSON object.")
@connected
def cancel(connection: Connection, run_id: str, reason: str, json_out: bool) -> None:
    """Cancel RUN. Exit code 1 when it had ended before."""
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


def _follow(
    run: "Run[Any]", *, after: int, until: Literal["terminal", "pause"], timeout: float | None, json_out: bool
) -> None:
    ended = "done"
    try:
        with display_for(terminal=sys.stdout.isatty() and not json_out) as display:
            display.busy("waiting for the run …")
            for event in run.events(after=after, until=until, timeout=timeout):
                if json_out:
                    echo_json(event_to_json(event))
                else:
                    display.show(event)
                if event.kind in TERMINAL_KINDS:
                    ended = event.kind
    except TimeoutError as error:
        raise click.ClickException(f"nothing came from run {run.run_id} for {timeout:g} s; it goes on") from error
    if ended != "done":
        raise click.exceptions.Exit(failures.FAILED)


def _document(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise click.UsageError(f"{name} is not JSON: {error}") from error


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise click.UsageError(f"--metadata wants KEY=VALUE, and {text!r} is not that")
    return key, value
