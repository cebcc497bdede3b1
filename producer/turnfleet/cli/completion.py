"""`turnfleet completion`, and what is completed besides commands and options: ids, as the fleet has them now."""

from collections.abc import Callable

import click
from click.shell_completion import CompletionItem, get_completion_class

from turnfleet.cli import teaching
from turnfleet.cli.options import Connection
from turnfleet.store import Keys, commands
from turnfleet.store.records import Snapshot
from turnfleet_kernel.errors import TurnfleetError

SHELLS = ("bash", "zsh", "fish")
WAIT_SECONDS = 0.5
MOST = 100

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


@click.command(
    cls=teaching.Taught,
    short_help="Print the completion script of a shell.",
    examples=(
        ('eval "$(turnfleet completion bash)"', "for this shell; in ~/.bashrc for every one"),
        ("turnfleet completion zsh > _turnfleet", "for zsh: put the file into a folder of $fpath"),
        ("turnfleet completion fish > turnfleet.fish", "for fish: into ~/.config/fish/completions"),
    ),
    codes=(2,),
)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script with which a shell completes commands, options and run ids.

    Run ids are asked of the fleet that the options or the environment name: at most half a second, and none is offered
    when it does not answer.
    """
    root = ctx.find_root()
    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(root.command, {}, "turnfleet", "_TURNFLEET_COMPLETE").source())


def run_ids(*states: str) -> Completer:
    """Return a completer of ids of runs in these states; of all states when none is given."""

    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [
            CompletionItem(run.run_id, help=f"{run.state}, {run.plan_name}")
            for run in _runs(_connection(ctx), states)
            if run.run_id.startswith(incomplete)
        ][:MOST]

    return complete


def interrupt_ids(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete ids of what the run on the command line asks."""
    run_id = ctx.params.get("run_id")
    return [
        CompletionItem(interrupt.id, help=interrupt.kind)
        for run in _runs(_connection(ctx), ("paused",))
        if run.run_id == run_id
        for interrupt in run.interrupts
        if interrupt.decision is None and interrupt.id.startswith(incomplete)
    ]


def _connection(ctx: click.Context) -> Connection:
    here, above = (
        Connection(*(context.params.get(name) for name in ("redis", "broker", "fleet", "key_prefix")))
        for context in (ctx, ctx.find_root())
    )
    return here.or_else(above)


def _runs(connection: Connection, states: tuple[str, ...]) -> list[Snapshot]:
    """Return some runs, newest first in each state; none when anything is in the way: a prompt is no place for it."""
    try:
        # Redis alone: loading the whole client takes longer than a person waits for a word.
        from turnfleet.store.executor import SyncExecutor  # noqa: PLC0415

        keys, executor = (
            Keys(connection.name, key_prefix=connection.key_prefix),
            SyncExecutor(connection.redis_url, timeout=WAIT_SECONDS),
        )
        try:
            asked = [
                commands.listing(keys, shard, state=state, limit=MOST)
                for state in states or (None,)
                for shard in range(keys.shards)
            ]
            pages = [page for page in executor.execute_many(asked) if not isinstance(page, TurnfleetError)]
        finally:
            executor.close()
    except (TurnfleetError, ValueError, TypeError, OSError):
        return []
    return sorted((run for page in pages for run in page.rows), key=lambda run: run.created_ms, reverse=True)
