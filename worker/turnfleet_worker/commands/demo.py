"""`turnfleet demo`: the main job on real files, with a Redis and a worker of its own. Here: what can be asked for."""

import sys
from decimal import Decimal
from pathlib import Path

import click

from turnfleet.cli.options import Connection, connected
from turnfleet.cli.printing import as_json
from turnfleet.ids import new_id
from turnfleet_kernel.contracts.interrupts import Approve, Decision, Reject
from turnfleet_worker.commands.demo_run import Job, run
from turnfleet_worker.demo import job
from turnfleet_worker.demo.tools import is_ours

FILE = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)


def _limit(_ctx: click.Context, _parameter: click.Parameter, value: str) -> Decimal:
    try:
        return job.parse_limit(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.command(short_help="See the main job at work on sample files, with no set-up.")
@click.option("--invoices", type=FILE, help="A CSV of invoices (else the sample that is shipped).")
@click.option("--payments", type=FILE, help="A CSV of bank payments (else the sample).")
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where the report goes, and the ledger of write-offs beside it (else turnfleet-demo/RUN/report.md).",
)
@click.option(
    "--limit",
    default=str(job.DEFAULT_LIMIT),
    show_default=True,
    callback=_limit,
    metavar="AMOUNT",
    help="A write-off above this waits for a person.",
)
@click.option("--yes", is_flag=True, help="Approve every write-off without asking.")
@click.option("--no", is_flag=True, help="Reject every write-off above the limit without asking.")
@click.option(
    "--model",
    default=job.RULES,
    show_default=True,
    metavar="NAME",
    help="A model that pydantic-ai knows, such as openai:gpt-5-mini; the rules need no key.",
)
@click.option("--keep", is_flag=True, help="Leave Redis and the worker running until Ctrl-C, to look around.")
@click.option("--print", "what", type=click.Choice(("plan", "prompt")), help="Only print the run's plan or prompt.")
@connected
def demo(
    connection: Connection,
    *,
    invoices: Path | None,
    payments: Path | None,
    report: Path | None,
    limit: Decimal,
    yes: bool,
    no: bool,
    model: str,
    keep: bool,
    what: str | None,
) -> None:
    """Reconcile a CSV of invoices with a CSV of bank payments, and decide what to write off.

    Starts a Redis (unless --redis names one) and a worker, enqueues the job, shows its events, asks you about each
    write-off above the limit (where stdin is no terminal, those are not made), writes the report, and ends everything
    it started.

    Exit codes: 0 done; 1 the run failed or wrote no report; 2 wrong usage; 3 no Redis; 128+n ended by a signal.
    """
    if (invoices is None) != (payments is None):
        raise click.UsageError("give both files, --invoices and --payments, or neither")
    if yes and no:
        raise click.UsageError("--yes and --no exclude each other")
    answer: Decision | None = Approve() if yes else Reject("not approved (--no)") if no else None
    if answer is None and what is None and not sys.stdin.isatty():
        click.echo(
            "nobody can be asked here (stdin is no terminal): nothing above the limit is written off, else use --yes",
            err=True,
        )
        answer = Reject("nobody could be asked")
    run_id = f"demo-{new_id()[:8]}"
    todo = Job(
        run_id=run_id,
        invoices=invoices or job.SAMPLE / "invoices.csv",
        payments=payments or job.SAMPLE / "payments.csv",
        report=report or Path("turnfleet-demo") / run_id / "report.md",
        limit=limit,
        model=model,
        answer=answer,
    )
    if any("\n" in str(path) for path in (todo.invoices, todo.payments, todo.report)):
        raise click.UsageError("a file name with a line break in it cannot be passed on")
    if what is not None:
        click.echo(as_json(todo.plan.model_dump(mode="json")) if what == "plan" else todo.prompt, nl=what == "plan")
        return
    if not is_ours(todo.report):
        raise click.UsageError(f"{todo.report} exists and is no report of this job: give another path")
    run(connection, todo, keep=keep)
