"""`turnfleet acl`: the users of a fleet's Redis, each with the least that it needs."""

from collections.abc import Sequence

import click

from turnfleet.cli.options import Connection, connected


@click.command(short_help="Print an ACL file: what each kind of client may do.")
@click.option("--database", type=click.IntRange(0), default=0, show_default=True, help="The number of the database.")
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="A queue of your own. Repeatable.")
@connected
def acl(connection: Connection, *, database: int, queues: Sequence[str]) -> None:
    """Print the lines of an aclfile with the users producer, worker and monitor; asks no server.

    None of them has a password yet: set each with ACL SETUSER NAME >PASSWORD, then ACL SAVE.
    """
    from turnfleet.store import Keys  # noqa: PLC0415 - `turnfleet --help` needs none of it
    from turnfleet.wire.acl import acl_rules  # noqa: PLC0415

    keys = Keys(connection.name, key_prefix=connection.key_prefix)
    for user, rules in acl_rules(keys, database=database, queues=queues).items():
        click.echo(f"user {user} reset on {rules}")
