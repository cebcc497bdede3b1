"""`turnfleet chaos`: what can be asked for. The rest is in turnfleet_worker/chaos."""

import secrets
import sys

import click

from turnfleet.cli import failures
from turnfleet.cli.printing import echo_json
from turnfleet_worker.chaos.harness import Chaos, Options
from turnfleet_worker.chaos.server import SERVERS
from turnfleet_worker.chaos.show import show_for
from turnfleet_worker.local.session import Session

RUNS_A_SECOND = 2.0


class _ServerKind(click.Choice[str]):
    """A kind of server; a URL is refused with the reason."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if "://" in value:
            self.fail("chaos kills its Redis, so it starts one of its own and takes no URL of yours", param, ctx)
        return super().convert(value, param, ctx)


@click.command(short_help="Run a workload under faults; check that nothing is lost.")
@click.option(
    "--seconds", type=click.FloatRange(5, 86_400), default=60.0, show_default=True, help="How long faults go on."
)
@click.option(
    "--runs", type=click.IntRange(1), help=f"How many runs, spread over that time (else {RUNS_A_SECOND} a second)."
)
@click.option("--workers", type=click.IntRange(1, 64), default=3, show_default=True, help="How many worker processes.")
@click.option("--seed", type=click.IntRange(0), help="Repeats a schedule of faults and runs (else a new one).")
@click.option("--redis", "server", type=_ServerKind(SERVERS), help="Which server to start (else the first found here).")
@click.option("--keep", is_flag=True, help="Keep the ledger of effects, the logs and Redis' data in any case.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON, and nothing while it goes on.")
def chaos(
    *, seconds: float, runs: int | None, workers: int, seed: int | None, server: str | None, keep: bool, as_json: bool
) -> None:
    """Run a workload under faults, and check that nothing was lost and no repeat is unexplained.

    Starts a Redis of its own and real workers; kills, freezes and restarts them; restarts and kills Redis; cuts
    connections; duplicates and steals broker messages. That Redis is one server, store and broker in one: no cluster,
    and no failover. Every effect of a tool is written to a file outside the fleet, with its call id. In the end all
    runs are let run to their end, and the report says what became of them.

    An effect is explained when it was made once; or again by a tool that declared itself idempotent, under the same
    call id; or by a worker that was frozen between the start of the call and the effect, and woke after somebody had
    looked, found nothing and said "retry" (the one window that no fleet can close; the pids and times of the freezes
    and the answers must show it). Everything else is unexplained: another repeat, another call id, an effect of a
    call that nobody approved, that began after an acknowledged cancel, or that a completed run says it made and the
    file does not have.

    A run is lost when it does not end within two minutes after the last fault, or ends otherwise than its script
    can. A stream is broken when its indices have a hole or a repeat, or its terminal event is not one, last, and of
    the run's state.

    Exit codes: 0 all is explained; 1 a run was lost, an effect is unexplained or a stream is broken; 2 wrong usage;
    3 no server to start; 128+n ended by a signal.
    """
    options = Options(
        seconds=seconds,
        runs=runs or round(seconds * RUNS_A_SECOND),
        workers=workers,
        seed=secrets.randbelow(1_000_000) if seed is None else seed,
        server=server,
    )
    with Session() as session:
        with show_for(terminal=sys.stdout.isatty(), as_json=as_json) as show:
            report = Chaos(options, session, show).run()
            show.end(report)
        if as_json:
            echo_json(report.to_json())
        if keep or not report.good:
            session.keep_logs = True
            click.echo(f"The ledger of effects, the logs and Redis' data are kept in {session.folder}", err=True)
    if not report.good:
        raise click.exceptions.Exit(failures.FAILED)
