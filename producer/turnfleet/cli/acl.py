"""`turnfleet acl`: the users of a fleet's servers, each with the least that it needs."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from turnfleet.cli.options import Connection, connected

if TYPE_CHECKING:
    from turnfleet.wire.acl import Part

SERVERS = ("store", "broker", "sentinel")


@click.command(short_help="Print an ACL file: what each kind of client may do.")
@click.option("--server", type=click.Choice(SERVERS), default="store", show_default=True, help="Whose file.")
@click.option("--database", type=click.IntRange(0), default=0, show_default=True, help="The number of the database.")
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="A queue of your own. Repeatable.")
@connected
def acl(connection: Connection, *, server: str, database: int, queues: Sequence[str]) -> None:
    """Print the lines of an aclfile with the users producer, worker and monitor; asks no server.

    The URLs of --redis and --broker say what is needed: a store that is no broker lets nobody at queues, and the nodes
    of a cluster are asked for slots. With another broker, --server broker prints the file of that Redis. Behind
    Sentinel and in a cluster, servers have the user replica for one another; Sentinel logs in as sentinel. --server
    sentinel prints the file of the sentinels themselves: clients are the user fleet there, other sentinels peer.

    None of them has a password yet: set each with ACL SETUSER NAME >PASSWORD, then ACL SAVE.
    """
    for user, rules in _users(connection, server, database, queues).items():
        click.echo(f"user {user} reset on {rules}")


def _users(connection: Connection, server: str, database: int, queues: Sequence[str]) -> Mapping[str, str]:
    from turnfleet.store import Keys  # noqa: PLC0415 - `turnfleet --help` needs none of it
    from turnfleet.store.place import cluster_place  # noqa: PLC0415
    from turnfleet.store.sentinel import sentinel_place  # noqa: PLC0415
    from turnfleet.wire.acl import acl_rules  # noqa: PLC0415
    from turnfleet.wire.acl_servers import REPLICA_RULES, SENTINEL_RULES, WATCH_RULES  # noqa: PLC0415

    store, broker = connection.redis_url, connection.broker or connection.redis_url
    url = broker if server == "broker" else store
    watched, clustered = sentinel_place(url) is not None, cluster_place(url) is not None
    if server == "sentinel":
        if not watched and sentinel_place(broker) is None:
            raise click.UsageError("neither --redis nor --broker is behind Sentinel (redis+sentinel://)")
        return WATCH_RULES
    if server == "broker" and broker == store:
        raise click.UsageError(
            "the broker is the run store's server: leave --server out, or give its URL with --broker"
        )
    if server == "broker" and not _is_redis(broker):
        raise click.UsageError("the broker of --broker is no Redis: it has permissions of its own")
    part: Part = "both" if broker == store and not clustered else "cluster" if clustered else "store"
    keys = Keys(connection.name, key_prefix=connection.key_prefix)
    return {
        **acl_rules(keys, part="broker" if server == "broker" else part, database=database, queues=queues),
        **(REPLICA_RULES if watched or clustered else {}),
        **(SENTINEL_RULES if watched else {}),
    }


def _is_redis(url: str) -> bool:
    from turnfleet.wire.broker_url import broker_place  # noqa: PLC0415 - kombu takes long to load

    return broker_place(url).redis
