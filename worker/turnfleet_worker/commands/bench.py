"""`turnfleet bench`: what can be asked for, and how it is shown. The rest is in turnfleet_worker/bench."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from turnfleet.cli import failures
from turnfleet.cli.options import Connection, connected, json_option
from turnfleet.cli.printing import echo_json, echo_table
from turnfleet.cli.teaching import Taught
from turnfleet_worker.bench.bench import Bench, Options
from turnfleet_worker.bench.place import FleetInUse
from turnfleet_worker.local.session import Session


@click.command(
    cls=Taught,
    short_help="Measure what this installation does in a second.",
    examples=(
        ("turnfleet bench", "a Redis of its own, one worker, about a minute"),
        ("turnfleet bench --redis redis://redis.internal:6379/0 --workers 4 -c 200", "your Redis, four workers here"),
        ("turnfleet bench --runs 500 --no-bare --json", "a short one, for a record"),
    ),
    codes=(1, 2, 3, 5),
    meant={
        0: "measured",
        1: "a worker could not be started, or the time was over before everything was measured",
        3: "no Redis answers, and none can be started",
        5: "the fleet named is in use",
    },
)
@click.option("--runs", type=click.IntRange(10, 100_000), default=2_000, show_default=True, help="The backlog's size.")
@click.option(
    "--seconds", type=click.FloatRange(1, 3_600), default=60.0, show_default=True, help="All measurements end then."
)
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="How many worker processes.")
@click.option(
    "-c", "--concurrency", type=click.IntRange(1), default=100, show_default=True, help="Runs at once in each."
)
@click.option("--bare/--no-bare", default=True, show_default=True, help="Measure bare Celery on the same broker, too.")
@json_option("Print the report as JSON, and nothing while it goes on.")
@connected
def bench(
    connection: Connection,
    *,
    runs: int,
    seconds: float,
    workers: int,
    concurrency: int,
    bare: bool,
    json_out: bool,
) -> None:
    """Measure what this installation does in a second.

    Starts a Redis of its own (unless --redis names one) and real workers whose model answers at once, so that what is
    left is the fleet's own cost. Measures enqueueing, runs of one turn, the time from enqueue and from a decision to
    the first event, and events to one reader; then, unless --no-bare, empty tasks of bare Celery on the same broker.

    It works in a fleet with a name of its own, which is gone afterwards. With --fleet it takes the one named, and
    refuses it unless it is empty: no run, no worker.

    Figures are of this machine, at this load, with these versions: compare within a report, not between two machines.
    """
    options = Options(
        runs=runs,
        seconds=seconds,
        workers=workers,
        concurrency=concurrency,
        redis=connection.redis,
        broker=connection.broker,
        fleet=connection.fleet,
        key_prefix=connection.key_prefix,
        bare=bare,
    )
    try:
        with Session() as session, _progress(shown=not json_out) as tell:
            report = Bench(options, session, tell).run()
    except FleetInUse as error:
        click.echo(f"Error: {error}", err=True)
        raise click.exceptions.Exit(failures.CONFLICT) from error
    if json_out:
        echo_json(report.to_json())
    else:
        echo_table(("measured", "figure"), report.rows())
    if report.unmeasured:
        raise click.exceptions.Exit(failures.FAILED)


@contextmanager
def _progress(*, shown: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Show a bar on a terminal, a line a measurement elsewhere, both on stderr."""
    if not shown:
        yield lambda _name, _done, _of: None
    elif not sys.stderr.isatty():
        yield _Lines().tell
    else:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("starting", total=None)
            yield lambda name, done, of: bar.update(task, description=name, completed=done, total=of)


class _Lines:
    """Says what is being measured, once."""

    def __init__(self) -> None:
        self._said = ""

    def tell(self, name: str, _done: int, _of: int) -> None:
        """Print a line when something else begins."""
        if name != self._said:
            self._said = name
            click.echo(f"measuring: {name}", err=True)
