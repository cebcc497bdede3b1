"""The least that each kind of client needs of a Redis, as its ACL rules: what our scripts and kombu's transport touch.

A command that a script runs is checked like any other, so a client that may load scripts can do no more than is listed.
What kombu needs stands in a selector of its own: its commands then do not reach the run store's keys.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from turnfleet.store.keys import Keys
from turnfleet.wire.broker import default_queue

Part: TypeAlias = Literal["both", "store", "cluster", "broker"]
"""What a server is to the fleet: run store and broker, one of them, or a node of the cluster that is the run store."""

USERS: Final = ("producer", "worker", "monitor")

_BASE: Final = "+@connection -@admin -@dangerous +script|load +script|exists"
_STORES: Final = "+info +eval +evalsha"
_READS: Final = (
    "+time +exists +hmget +hgetall +hlen +lrange +xrange "
    "+zcard +zcount +zrange +zrangebyscore +zrank +zrevrange +zrevrangebyscore +zscore"
)
_WRITES: Final = "+wait +hset +hdel +del +rpush +xadd +zadd +zrem +persist +pexpire"
_WORKS: Final = "+get +set +pttl"
_TAKES: Final = (
    "+eval +evalsha +watch +brpop +rpop +lpush +llen +lindex +del +exists +pexpire +set +get "
    "+hget +hset +hdel +sadd +srem +smembers +zadd +zrem +zrange +zrangebyscore"
)
_ASKS: Final = "+eval +evalsha +brpop +llen +del +exists +pexpire +sadd +srem +smembers +zadd +zrem +zrangebyscore"


def acl_rules(keys: Keys, *, part: Part = "both", database: int = 0, queues: Sequence[str] = ()) -> Mapping[str, str]:
    """Return the rules of the `USERS`, for `ACL SETUSER` or an aclfile; without a password.

    `queues`: Celery queues of your own that runs are enqueued to. The monitor is for Flower and for the commands that
    only look. Whoever subscribes to a pattern must be granted that very pattern, so channels stand here by database.
    """
    store = {} if part == "broker" else _store(keys, clustered=part == "cluster")
    broker = {} if part in {"store", "cluster"} else _broker(keys, database, queues)
    return {user: _line([rules[user] for rules in (store, broker) if rules]) for user in USERS}


@dataclass(frozen=True, slots=True)
class _Rights:
    """`keys` are those that `commands` may touch; `apart` are selectors, with commands and keys of their own."""

    commands: str
    channels: str
    keys: str = ""
    apart: str = ""


def _line(rights: Sequence[_Rights]) -> str:
    """Write rights together, nothing twice."""
    parts = [_BASE, *(each.commands for each in rights), *(each.keys for each in rights)]
    words = " ".join([*parts, *(each.channels for each in rights)]).split()
    return " ".join([*dict.fromkeys(words), *(each.apart for each in rights if each.apart)])


def _store(keys: Keys, *, clustered: bool) -> dict[str, _Rights]:
    prefix = keys.key_prefix
    kept = f"~{prefix}{{{keys.fleet}:*}}:* ~{prefix}{{{keys.fleet}}}:*"
    events, control = f"&{prefix}{{{keys.fleet}:*}}:e:*", f"&{keys.control_prefix}*"
    looks, tells, hears = f"{_STORES} {_READS}", "+publish", "+subscribe +unsubscribe"
    if clustered:
        # Events stay in their shard. Cancels, which a worker hears by a pattern, are told to every node.
        looks, tells, hears = f"+cluster|slots {looks}", "+publish +spublish", "+ssubscribe +sunsubscribe"
    return {
        "producer": _Rights(f"{looks} {_WRITES} {tells} {hears}", f"{events} {control}", kept),
        "worker": _Rights(f"{looks} {_WRITES} {_WORKS} {tells} +psubscribe +punsubscribe", f"{events} {control}", kept),
        "monitor": _Rights(f"{looks} {hears}", events, kept),
    }


def _broker(keys: Keys, database: int, queues: Sequence[str]) -> dict[str, _Rights]:
    prefix, queue = keys.key_prefix, default_queue(keys.fleet)
    told = f"&{prefix}/{database}.{queue}.events/*"
    commands = f"&{prefix}/{database}.{queue}.control.pidbox"
    lists = " ".join(
        # A priority's list has two control characters behind the queue's name.
        f"~{prefix}{each} ~{prefix}{each}[^-A-Za-z0-9._]*"
        for each in (queue, *queues)
    )
    bindings = " ".join(
        f"~{prefix}_kombu.{kind}.{each}" for kind in ("binding", "binding_permanent") for each in (queue, *queues)
    )
    pidbox = f"{queue}.control.pidbox"
    answers = " ".join(
        [
            f"~{prefix}*.reply.{pidbox}*",
            f"~{prefix}{queue}.event.*",
            f"~{prefix}_kombu.binding.{queue}.*",
            f"~{prefix}_kombu.binding_permanent.{queue}.*",
            f"~{prefix}_kombu.binding.reply.{pidbox}",
            f"~{prefix}_kombu.binding_permanent.reply.{pidbox}",
            f"~{prefix}_kombu.binding_deadlines",
        ]
    )
    held = f"~{prefix}{queue}.unacked* ~{prefix}*@*.{pidbox}*"
    # kombu's scripts ask for the time.
    hears = "+time +@transaction +publish +subscribe +unsubscribe +psubscribe +punsubscribe"
    return {
        "producer": _Rights("+@transaction +publish", told, apart=f"(+lpush +llen +sadd {lists} {bindings})"),
        "worker": _Rights(
            hears,
            f"{told} {told.removesuffix('*')}worker.* {commands}",
            apart=f"({_TAKES} {lists} {bindings} {held} {answers})",
        ),
        "monitor": _Rights(hears, f"{told} {commands}", apart=f"(+llen {lists}) ({_ASKS} {bindings} {answers})"),
    }
