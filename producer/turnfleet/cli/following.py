"""`turnfleet enqueue` and `turnfleet tail`: a run is made, and its events are shown as they come."""

import functools
import json
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from turnfleet.cli import failures, patience
from turnfleet.cli.completion import run_ids
from turnfleet.cli.display import display_for
from turnfleet.cli.options import Connection, Seconds, connected, json_option
from turnfleet.cli.patience import Until
from turnfleet.cli.printing import echo_json
from turnfleet.cli.teaching import Taught
from turnfleet_kernel.contracts.events import PAUSE_KINDS, TERMINAL_KINDS, KernelEvent
from turnfleet_kernel.contracts.interrupts import Interrupt
from turnfleet_kernel.contracts.json import event_to_json
from turnfleet_kernel.contracts.spec import PlanSpec

if TYPE_CHECKING:
    from turnfleet import Fleet, Run


@click.command(
    cls=Taught,
    short_help="Enqueue a run of a plan, and print its id.",
    examples=(
        ('turnfleet enqueue plan.json "Order 1001 arrived broken."', "print the new run's id, and come back"),
        ("turnfleet enqueue plan.json - --follow < mail.txt", "the prompt from a file; show what happens"),
        (
            'turnfleet enqueue plan.json "Order 1001 arrived broken." --run-id ticket-1000',
            "under an id of your own: sent twice, it is one run",
        ),
    ),
    shape={"run_id": "the run's id", "state": "its state"},
    codes=(1, 2, 3, 5, 130, 141),
    meant={1: "with --follow: the run failed, was cancelled or expired", 5: "the run id is taken by another request"},
)
@click.argument("plan", type=click.File("r", encoding="utf-8"))
@click.argument("prompt")
@click.option("--run-id", metavar="ID", help="The run's id; the same id and request is enqueued once.")
@click.option("--thread", metavar="ID", help="Runs of one thread go one after the other.")
@click.option("--tenant", metavar="NAME", help="Whose run it is.")
@click.option("--priority", type=click.IntRange(0, 9), default=5, show_default=True, help="9 goes first.")
@click.option("--queue", metavar="NAME", help="The broker's queue (else the fleet's own).")
@click.option("--countdown", type=Seconds(), metavar="SECONDS", help="Start no earlier than this.")
@click.option("--expires", type=Seconds(), metavar="SECONDS", help="Not finished by then: expired.")
@click.option("--deadline", type=Seconds(), metavar="SECONDS", help="Budget of running time.")
@click.option("--metadata", multiple=True, metavar="KEY=VALUE", help="Kept with the run. Repeatable.")
@click.option("--follow", is_flag=True, help="Show the run's events until it ends or asks something.")
@json_option("Print JSON instead of the run's id; with --follow, then each event, one a line.")
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
    """Enqueue a run of a plan, and print its id.

    PLAN is a JSON file: {"name": ..., "instructions": ..., "model": ..., "tools": [...]}, the fields of PlanSpec.
    PROMPT is what the agent is asked. "-" for one of them reads stdin.
    """
    if plan.name == "<stdin>" and prompt == "-":
        raise click.UsageError("only one of PLAN and PROMPT can come from stdin")
    spec = PlanSpec.model_validate(_document(_read(plan, plan.name), plan.name))
    text = _read(sys.stdin, "stdin") if prompt == "-" else prompt
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
            _follow(fleet, run, after=-1, until="pause", timeout=None, json_out=json_out)


@click.command(
    cls=Taught,
    short_help="Show a run's events, past and live.",
    examples=(
        ("turnfleet tail ticket-1001", "everything so far, then live; Ctrl-C leaves the run alone"),
        ("turnfleet tail ticket-1001 --until pause --json", "one JSON object a line, until it ends or asks something"),
        ("turnfleet tail ticket-1001 --after 4", "go on behind event 4"),
    ),
    shape={
        "run_id": "whose event it is",
        "index": "its place in the run, from 0, without a gap",
        "kind": "what happened; what else there is depends on it (docs/reference/schemas/event.json)",
        "time": "when, in Unix seconds",
    },
    codes=(1, 2, 3, 4, 130, 141),
    meant={1: "the run failed, was cancelled or expired; or nothing came within --timeout"},
)
@click.argument("run_id", metavar="RUN", shell_complete=run_ids())
@click.option(
    "--after", type=click.IntRange(-1, 2**53), default=-1, show_default=True, help="Only events with an index above."
)
@click.option(
    "--until", type=click.Choice(("terminal", "pause")), default="terminal", show_default=True, help="Stop at."
)
@click.option("--timeout", type=Seconds(), metavar="SECONDS", help="Give up when nothing comes for so long.")
@json_option("Print each event as one line of JSON.")
@connected
def tail(
    connection: Connection, *, run_id: str, after: int, until: Until, timeout: float | None, json_out: bool
) -> None:
    """Show the events of RUN: the past ones first, then live, across pauses, to its end.

    On a terminal the text shows as it streams, with the calls at work below; in a pipe, a line for each thing that
    happened. "rewind" means that a worker was lost in the middle of an answer: what it had said does not count, and the
    answer is told again.
    """
    with connection.open() as fleet:
        _follow(fleet, fleet.run(run_id), after=after, until=until, timeout=timeout, json_out=json_out)


def _follow(
    fleet: "Fleet", run: "Run[Any]", *, after: int, until: Until, timeout: float | None, json_out: bool
) -> None:
    last: KernelEvent | None = None
    try:
        with display_for(terminal=(live := sys.stdout.isatty() and not json_out)) as display:
            tell = functools.partial(display.note, "stands") if live else functools.partial(click.echo, err=True)
            display.busy("waiting for the run …")
            for event in patience.events(fleet, run, after=after, until=until, timeout=timeout, tell=tell):
                if json_out:
                    echo_json(event_to_json(event))
                else:
                    display.show(event)
                last = event
            if last is not None and last.kind in PAUSE_KINDS and live:
                display.note("decide", f"turnfleet resume {run.run_id}{_roles(last.interrupts)}")
    except TimeoutError as error:
        raise click.ClickException(f"nothing came from run {run.run_id} for {timeout:g} s; it goes on") from error
    if last is not None and last.kind in TERMINAL_KINDS - {"done"}:
        raise click.exceptions.Exit(failures.FAILED)


def _roles(interrupts: Sequence[Interrupt]) -> str:
    """Return the option for whoever may decide the first of these, " --role ROLE"; "" when anybody may."""
    roles = interrupts[0].payload.get("roles") if interrupts else None
    return f" --role {shlex.quote(str(roles[0]))}" if roles else ""


def _read(file: Any, name: str) -> str:
    try:
        text: str = file.read()
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{name} is not UTF-8 text") from error
    except OSError as error:
        raise click.UsageError(f"{name} cannot be read: {error.strerror}") from error
    return text


def _document(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError as error:
        raise click.UsageError(f"{name} is nested too deeply to be a plan") from error
    except ValueError as error:
        raise click.UsageError(f"{name} is not JSON: {error}") from error


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise click.UsageError(f"--metadata wants KEY=VALUE, and {text!r} is not that")
    return key, value
