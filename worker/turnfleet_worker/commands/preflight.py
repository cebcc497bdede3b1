"""`turnfleet preflight`: what can be asked for, and how it is shown. The rest is in turnfleet_worker/preflight."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from turnfleet.cli import failures
from turnfleet.cli.options import Connection, connected, json_option
from turnfleet.cli.printing import echo_json, echo_table, safe
from turnfleet.cli.teaching import Taught
from turnfleet.store import Keys
from turnfleet.store.executor import AsyncExecutor
from turnfleet.wire.signing import SigningKeys
from turnfleet_worker.commands.dev import check_registry, registry_option
from turnfleet_worker.commands.registry_app import load_registry
from turnfleet_worker.preflight.check import OnProgress
from turnfleet_worker.preflight.check import preflight as check
from turnfleet_worker.preflight.report import Report
from turnfleet_worker.preflight.survey import STATES, Wanted
from turnfleet_worker.registry import Registry


@click.command(
    cls=Taught,
    short_help="Say which runs would break under a new build.",
    examples=(
        ("turnfleet preflight --app myfleet:registry", "in the new build's folder, before its workers are started"),
        ("turnfleet preflight --app myfleet:registry --strict --json", "in a pipeline; runs that change count, too"),
        ("turnfleet preflight --app myfleet:registry --plan support --limit 100", "a look at one plan's runs"),
    ),
    codes=(1, 2, 3),
    meant={0: "every run goes on", 1: "some would break", 2: "wrong usage, or the registry cannot be loaded"},
)
@registry_option
@click.option(
    "--state",
    "states",
    type=click.Choice([*STATES, "failed"]),
    multiple=True,
    help="Only runs in this state; may be repeated. Else every run that has not ended. `failed`: as if retried.",
)
@click.option("--tenant", help="Only this tenant's runs.")
@click.option("--plan", help="Only runs of the plan with this name, or an id that begins so (8 digits or more).")
@click.option("--limit", type=click.IntRange(1), help="Look at no more than so many runs.")
@click.option("--stages/--no-stages", default=True, show_default=True, help="Run stages that a replay runs again.")
@click.option("--strict", is_flag=True, help="Runs that go on differently count as broken, too.")
@json_option("Print one JSON object.")
@connected
def preflight(
    connection: Connection,
    *,
    app: str,
    states: tuple[str, ...],
    tenant: str | None,
    plan: str | None,
    limit: int | None,
    stages: bool,
    strict: bool,
    json_out: bool,
) -> None:
    """Say which runs of a fleet would break under a new build, before it is rolled out.

    Loads plan and journal of every run that is queued, parked, paused or running, replays what is recorded against
    the registry of the new build, and stops where the run would do something that is not recorded. No model is asked,
    no tool is called, nothing is written: it may be run against production. Stages that a replay runs again anyway
    (compile, pre-model, post-model, pre-tool of a recorded turn) do run; all others do not.

    "breaks": the run would fail, be parked, or not do what a person was asked about. "changed": it goes on, but its
    model is told of an error that it would not have had, or a later decision may not fit.

    Run it with the environment of the new workers: a model that cannot be made here cannot be made there, and what
    none of its TURNFLEET_SIGNING_KEYS signed is refused here as there.
    """
    check_registry(app)
    if plan is not None and not plan.strip():
        raise click.UsageError("--plan: give a plan's name, or 8 digits or more of its id")
    wanted = Wanted(states=states or STATES, tenant=tenant, plan=plan, limit=limit)
    try:
        signing = SigningKeys.from_environment()
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    with _progress(shown=not json_out) as on_progress:
        looking = _check(
            load_registry(app), connection, wanted, stages=stages, signing=signing, on_progress=on_progress
        )
        report = asyncio.run(looking)
    if json_out:
        echo_json({**report.to_json(), "passes": report.passes(strict=strict)})
    else:
        _show(report)
    if not report.passes(strict=strict):
        raise click.exceptions.Exit(failures.FAILED)


async def _check(
    registry: Registry,
    connection: Connection,
    wanted: Wanted,
    *,
    stages: bool,
    signing: SigningKeys | None,
    on_progress: OnProgress,
) -> Report:
    executor = AsyncExecutor(connection.redis_url)
    keys = Keys(connection.name, key_prefix=connection.key_prefix)
    try:
        return await check(registry, executor, keys, wanted, stages=stages, signing=signing, on_progress=on_progress)
    finally:
        await executor.aclose()


@contextmanager
def _progress(*, shown: bool) -> Iterator[OnProgress]:
    """Show a bar on a terminal, on stderr; nothing elsewhere."""
    console = Console(stderr=True)
    if not shown or not (console.is_terminal and sys.stderr.isatty()):
        yield _quiet
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("runs", total=None)

        def move(passed: int, expected: int, report: Report) -> None:
            broken = report.words["breaks"]
            described = f"runs, {broken} would break" if broken else "runs"
            bar.update(task, completed=passed, total=max(expected, passed), description=described)

        yield move


def _quiet(_passed: int, _expected: int, _report: Report) -> None:
    return


def _show(report: Report) -> None:
    words = report.words
    for sentence in report.fleet:
        click.echo(safe(sentence))
    if report.causes:
        echo_table(
            ("verdict", "runs", "why", "about", "for example"),
            [
                (
                    "breaks" if cause.breaks else "changed",
                    str(runs),
                    cause.kind,
                    cause.about,
                    report.examples[cause].text,
                )
                for cause, runs in sorted(report.causes.items(), key=lambda item: (not item[0].breaks, -item[1]))
            ],
        )
        click.echo()
        echo_table(
            ("run", "state", "plan", "verdict", "why"),
            [
                (each.run_id, each.state, each.plan_name, each.word, "; ".join(found.text for found in each.findings))
                for each in report.listed
            ],
        )
        if left_out := words["breaks"] + words["changed"] - len(report.listed):
            click.echo(f"and {left_out} more")
        click.echo()
    click.echo(
        f"{report.looked_at} runs looked at: {words['goes on']} go on, {words['changed']} go on differently, "
        f"{words['breaks']} would break"
    )
