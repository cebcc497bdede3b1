"""Users with the least they need, on the nodes of a cluster and on the broker beside it: real servers, our lines."""

import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import redis
from security.guarded import Roles, passed, refused, users
from security.journey import PLAN
from support.redis_cluster import RedisCluster, tell
from support.redis_server import RedisServer
from support.waiting import eventually

from turnfleet.doctor.look import gather
from turnfleet.errors import TurnfleetError
from turnfleet.store import Keys
from turnfleet.wire.acl import USERS, acl_rules

pytestmark = pytest.mark.slow
STORE, BROKER = "redis+cluster://localhost:7000", "redis://localhost:6379/0"


def set_user(server: RedisServer, line: str) -> None:
    """Make a user as an aclfile's line says; a selector is one word."""
    _, *words = shlex.split(line.replace("(", "'(").replace(")", ")'"))
    tell(server, "ACL", "SETUSER", *words)


@pytest.fixture(scope="module")
def nodes() -> Iterator[RedisCluster]:
    """Give three masters."""
    with RedisCluster() as cluster:
        yield cluster


@pytest.fixture
def cluster(nodes: RedisCluster) -> RedisCluster:
    """Give them without users of ours, who have been refused nothing yet."""
    for server in nodes.masters:
        tell(server, "ACL", "DELUSER", *USERS)
        tell(server, "ACL", "LOG", "RESET")
    return nodes


def roles(cluster: RedisCluster, broker: RedisServer, name: str) -> Roles:
    """Give the users' clients."""
    return Roles(
        name, f"redis+cluster://USER@127.0.0.1:{cluster.masters[0].port}", f"redis://USER@127.0.0.1:{broker.port}/0"
    )


def test_a_fleet_works_with_no_more_than_it_was_given(
    cluster: RedisCluster, own_redis: RedisServer, fleet_name: str, tmp_path: Path
) -> None:
    """Not one refusal by any node or by the broker; then what none of the users may do, on either."""
    place = ("--redis", STORE, "--broker", BROKER, "--fleet", fleet_name, "acl")
    for line in users(tmp_path, *place):
        for server in cluster.masters:
            set_user(server, line)
    for line in users(tmp_path, *place, "--server", "broker"):
        set_user(own_redis, line)
    roles(cluster, own_redis, fleet_name).work()
    for server in (*cluster.masters, own_redis):
        with redis.Redis(port=server.port) as admin:
            assert refused(admin) == []
    queue = f"turnfleet.{fleet_name}"
    monitor = roles(cluster, own_redis, fleet_name).place("monitor")
    seen = gather(monitor["url"], name=fleet_name, broker_url=monitor["broker_url"], late_seconds=60)
    assert ([server.error for server in seen.servers], seen.broker.depths) == ([None] * 3, {queue: 0})
    record = Keys(fleet_name).record("run-1")
    everywhere = [
        ("FLUSHALL",), ("CONFIG", "GET", "requirepass"), ("KEYS", "*"), ("SCAN", "0"), ("ACL", "LIST"), ("SHUTDOWN",),
        ("GET", "somebody's"), ("EVAL", "return redis.call('FLUSHALL')", "0"),
    ]  # fmt: skip
    at_a_node = [
        ("CLUSTER", "NODES"), ("CLUSTER", "RESET"), ("CLUSTER", "SETSLOT", "1", "STABLE"), ("LPUSH", queue, "m"),
        ("LLEN", queue), ("SUBSCRIBE", f"/0.{queue}.control.pidbox"), ("PUBLISH", f"/0.{queue}.control.pidbox", "m"),
        ("SPUBLISH", "{other:0}:e:run", "m"), ("SSUBSCRIBE", "{other:0}:e:run"), ("HGETALL", "{other:0}:r:run"),
        ("PSUBSCRIBE", "*"), ("MULTI",),
    ]  # fmt: skip
    at_the_broker = [
        ("HGETALL", record), ("HSET", record, "plan", "{}"), ("DEL", record), ("LPUSH", "turnfleet.other", "m"),
        ("PUBLISH", "/0.turnfleet.other.control.pidbox", "m"), ("INFO",), ("SUBSCRIBE", f"{{{fleet_name}:0}}:e:run"),
    ]  # fmt: skip
    for user in USERS:
        with redis.Redis(port=cluster.node_of(record).port, username=user, password=user) as client:
            assert passed(client, [*everywhere, *at_a_node]) == []
        with redis.Redis(port=own_redis.port, username=user, password=user) as client:
            assert passed(client, [*everywhere, *at_the_broker]) == []


@pytest.mark.parametrize(
    ("user", "missing"),
    [
        ("producer", "+cluster|slots"),
        ("producer", "+spublish"),
        ("producer", "+ssubscribe"),
        ("monitor", "+ssubscribe"),
    ],
)
def test_without_any_word_of_a_clusters_it_does_not_work(
    cluster: RedisCluster, own_redis: RedisServer, fleet_name: str, user: str, missing: str
) -> None:
    """They are printed because they are needed."""
    for role, rules in acl_rules(Keys(fleet_name), part="cluster").items():
        left = [word for word in rules.split() if role != user or word != missing]
        for server in cluster.masters:
            tell(server, "ACL", "SETUSER", role, "reset", "on", *left, f">{role}")
    place = roles(cluster, own_redis, fleet_name)
    with place.fleet("producer") as fleet, place.fleet(user) as client:
        with suppress(TurnfleetError):
            fleet.enqueue(PLAN, "please", run_id="r", countdown=600)
        with suppress(TurnfleetError, TimeoutError):
            list(client.run("r").events(timeout=1))
        with suppress(TurnfleetError):
            fleet.run("r").cancel()
    what = missing.removeprefix("+")
    eventually(lambda: (user, "command", what) in _refusals(cluster), what=f"{what} is refused")


def _refusals(cluster: RedisCluster) -> list[tuple[str, str, str]]:
    found = []
    for server in cluster.masters:
        with redis.Redis(port=server.port) as admin:
            found += refused(admin)
    return found
