"""`turnfleet resume`: decide what a paused run asks, by options or by answering questions."""

import functools
import getpass
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

import click
from rich.console import Console

from turnfleet.cli import failures
from turnfleet.cli.asking import ask_all
from turnfleet.cli.completion import interrupt_ids, run_ids
from turnfleet.cli.options import Connection, connected, json_option
from turnfleet.cli.printing import echo_json
from turnfleet.cli.teaching import Taught
from turnfleet.cli.ways_out import end
from turnfleet.errors import InvalidDecision, NotAllowed, UnknownInterrupt
from turnfleet.interrupt import RunInterrupt
from turnfleet_kernel.contracts.interrupts import Answer, Approve, Decision, Edit, Reject, Retry


def somebody() -> str:
    """Return who decides when nobody says so: the user of this machine."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "somebody"


@click.command(
    cls=Taught,
    short_help="Decide what a paused run asks.",
    examples=(
        ("turnfleet resume ticket-1001", "be asked about each thing that waits"),
        ("turnfleet resume ticket-1001 --approve approval:call-1 --role finance", "decide without being asked"),
        (
            """turnfleet resume ticket-1004 --edit approval:call-1 '{"amount": 40}' --role finance""",
            "approve, with other arguments",
        ),
        ("""turnfleet resume ticket-1005 --answer question:ask-1 '"blue"'""", "answer a question, in JSON"),
    ),
    shape={"run_id": "the run's id", "state": "its state now", "open": "the ids of what is still asked"},
    codes=(2, 3, 4, 5, 130),
)
@click.argument("run_id", metavar="RUN", shell_complete=run_ids("paused"))
@click.option(
    "--approve",
    multiple=True,
    metavar="ID",
    shell_complete=interrupt_ids,
    help="Approve this interrupt. Repeatable, as all of these.",
)
@click.option("--reject", multiple=True, metavar="ID", shell_complete=interrupt_ids, help="Reject this interrupt.")
@click.option("--reason", default="", metavar="TEXT", help="Why it is rejected; the model reads it.")
@click.option("--edit", multiple=True, type=(str, str), metavar="ID JSON", help="Approve with these arguments instead.")
@click.option("--answer", multiple=True, type=(str, str), metavar="ID JSON", help="Answer this question.")
@click.option(
    "--retry",
    "again",
    multiple=True,
    metavar="ID",
    shell_complete=interrupt_ids,
    help="Make the call that is in doubt again.",
)
@click.option("--by", metavar="NAME", help="Who decides (else the user of this machine).")
@click.option("--role", multiple=True, metavar="ROLE", help="A role of whoever decides.")
@click.option("--decision-id", metavar="TEXT", help="Makes a repeat of this very decision harmless.")
@json_option("Print one JSON object: the run's state, and what is still open.")
@connected
def resume(
    connection: Connection,
    *,
    run_id: str,
    approve: Sequence[str],
    reject: Sequence[str],
    reason: str,
    edit: Sequence[tuple[str, str]],
    answer: Sequence[tuple[str, str]],
    again: Sequence[str],
    by: str | None,
    role: Sequence[str],
    decision_id: str | None,
    json_out: bool,
) -> None:
    """Decide what the paused RUN asks: all at once, or nothing. Without an option, asks you about each.

    The ids are those that turnfleet show and turnfleet inbox list. A decision is bound to what was shown.
    """
    decisions = _collect(
        [
            *((identity, Approve) for identity in approve),
            *((identity, lambda: Reject(reason)) for identity in reject),
            *((identity, lambda text=text: Edit(_arguments(text))) for identity, text in edit),
            *((identity, lambda text=text: Answer(_json(text, "--answer"))) for identity, text in answer),
            *((identity, Retry) for identity in again),
        ]
    )
    with connection.open() as fleet:
        run = fleet.run(run_id)
        if not decisions:
            waiting = run.interrupts()
            if not waiting:
                state = run.status().state
                end(f"run {run_id!r} is {state} and asks nothing: there is nothing to decide", failures.CONFLICT)
            if not sys.stdin.isatty():
                names = ", ".join(each.id for each in waiting)
                raise click.UsageError(f"say what to decide, with --approve or --reject: {names} (nobody can be asked)")
            decide = functools.partial(run.resume, by=by or somebody(), roles=tuple(role), decision_id=decision_id)
            decisions = _ask_until_taken(decide, _theirs(run_id, waiting, role))
        else:
            run.resume(decisions, by=by or somebody(), roles=tuple(role), decision_id=decision_id)
        status = run.status()
        if json_out:
            echo_json({"run_id": run_id, "state": status.state, "open": [each.id for each in status.interrupts]})
        else:
            still = f", {len(status.interrupts)} still open" if status.interrupts else ""
            click.echo(f"{len(decisions)} decided{still}; run {run_id} is {status.state}")


def _theirs(run_id: str, waiting: Sequence[RunInterrupt], roles: Sequence[str]) -> list[RunInterrupt]:
    """Return what somebody with these roles may decide, and say what is left; `NotAllowed` when that is all of it."""
    theirs = [each for each in waiting if not each.roles or set(each.roles) & set(roles)]
    others = [each for each in waiting if each not in theirs]
    if not theirs:
        raise NotAllowed(run_id, others[0].id, others[0].roles)
    for each in others:
        click.echo(f"left open: {each.id}, which is for {', '.join(each.roles)} (--role)", err=True)
    return theirs


def _ask_until_taken(decide: Callable[..., object], waiting: Sequence[RunInterrupt]) -> dict[str, Decision]:
    """Ask about each, decide all, and ask again about one that does not fit; return what was decided.

    A decision is bound to what was shown here: when the call has changed since, it is not taken.
    """
    console = Console(highlight=False)
    shown = {each.id: each.digest for each in waiting if each.digest is not None}
    decisions = ask_all(console, waiting, may_skip=True)
    while decisions:
        try:
            decide(decisions, shown=shown)
        except UnknownInterrupt:
            raise
        except InvalidDecision as error:
            click.echo(f"  That was not taken: {error}. Please decide again.", err=True)
            del decisions[error.interrupt_id]
            again = [each for each in waiting if each.id == error.interrupt_id]
            decisions |= ask_all(console, again, may_skip=True)
        else:
            break
    return decisions


def _collect(asked: Sequence[tuple[str, Callable[[], Decision]]]) -> dict[str, Decision]:
    decisions: dict[str, Decision] = {}
    for identity, make in asked:
        if identity in decisions:
            raise click.UsageError(f"{identity} is decided twice in one command")
        decisions[identity] = make()
    return decisions


def _arguments(text: str) -> dict[str, Any]:
    value = _json(text, "--edit")
    if not isinstance(value, dict):
        raise click.UsageError("--edit takes a JSON object of arguments")
    return value


def _json(text: str, option: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise click.UsageError(f"what follows the id in {option} is not JSON: {error}") from error
