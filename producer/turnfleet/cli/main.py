"""The root command, with the commands that need no worker wing."""

import click

from turnfleet.cli.acl import acl
from turnfleet.cli.completion import completion
from turnfleet.cli.decisions import resume
from turnfleet.cli.doctor import doctor
from turnfleet.cli.following import enqueue, tail
from turnfleet.cli.group import CommandLine
from turnfleet.cli.listings import inbox, runs, workers
from turnfleet.cli.one_run import cancel, retry, show
from turnfleet.cli.options import Connection, group_connection


@click.group(cls=CommandLine, context_settings={"help_option_names": ["-h", "--help"]})
@group_connection
@click.version_option(package_name="turnfleet")
@click.pass_context
def cli(ctx: click.Context, redis: str | None, broker: str | None, fleet: str | None, key_prefix: str | None) -> None:
    """Enqueue agent runs, watch them, and decide what they ask.

    A first fleet: turnfleet demo. One of your own: turnfleet dev --app myfleet:registry, then, in another terminal,
    turnfleet enqueue plan.json "Hello" --follow. Each command explains itself: turnfleet COMMAND --help.
    """
    ctx.obj = Connection(redis, broker, fleet, key_prefix)


for command in (enqueue, tail, runs, inbox, show, resume, retry, cancel, workers, doctor, acl, completion):
    cli.add_command(command)
