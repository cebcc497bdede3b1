"""The least that each kind of client needs of a Redis, as its ACL rules: what our scripts and kombu's transport touch.

A command that a script runs is checked like any other, so a client that may load scripts can do no more than is listed.
What kombu needs stands in a selector of its own: its commands then do not reach the run store's keys.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from turnfleet.store.keys import Keys
from turnfleet.wire.broker import default_queue

_BASE: Final = "+@connection -@admin -@dangerous +@transaction +info +eval +evalsha +script|load +script|exists"
_READS: Final = (
    "+time +exists +hmget +hgetall +hlen +lrange +xrange "
    "+zcard +zcount +zrange +zrangebyscore +zrank +zrevrange +zrevrangebyscore +zscore"
)
_WRITES: Final = "+wait +hset +hdel +del +rpush +xadd +zadd +zrem +persist +pexpire"
_WORKS: Final = "+get +set +pttl"
_LISTENS: Final = "+subscribe +unsubscribe +publish"
_PATTERNS: Final = "+psubscribe +punsubscribe"
_TAKES: Final = (
    "+eval +evalsha +watch +brpop +rpop +lpush +llen +lindex +del +exists +pexpire +set +get "
    "+hget +hset +hdel +sadd +srem +smembers +zadd +zrem +zrange +zrangebyscore"
)
_ASKS: Final = "+eval +evalsha +brpop +llen +del +exists +pexpire +sadd +srem +smembers +zadd +zrem +zrangebyscore"


def acl_rules(keys: Keys, *, database: int = 0, queues: Sequence[str] = ()) -> Mapping[str, str]:
    """Return the rules of `producer`, `worker` and `monitor`, for `ACL SETUSER` or an aclfile; without a password.

    `queues`: Celery queues of your own that runs are enqueued to. The monitor is for Flower and for the commands that
    only look. Whoever subscribes to a pattern must be granted that very pattern, so channels stand here by database.
    """
    prefix, queue = keys.key_prefix, default_queue(keys.fleet)
    store = f"~{prefix}{{{keys.fleet}:*}}:* ~{prefix}{{{keys.fleet}}}:*"
    events, control = f"&{prefix}{{{keys.fleet}:*}}:e:*", f"&{keys.control_prefix}*"
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
    return {
        "producer": (
            f"{_BASE} {store} {_READS} {_WRITES} {_LISTENS} {events} {control} {told} "
            f"(+lpush +llen +sadd {lists} {bindings})"
        ),
        "worker": (
            f"{_BASE} {store} {_READS} {_WRITES} {_WORKS} {_LISTENS} {_PATTERNS} {events} {control} {told} "
            f"{told.removesuffix('*')}worker.* {commands} ({_TAKES} {lists} {bindings} {held} {answers})"
        ),
        "monitor": (
            f"{_BASE} {store} {_READS} {_LISTENS} {_PATTERNS} {events} {told} {commands} "
            f"(+llen {lists}) ({_ASKS} {bindings} {answers})"
        ),
    }
