"""What waits in the broker is taken and acknowledged in batches; a batch is the worker's from when it left the list."""

import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import redis
from kombu import Connection, Consumer, Queue
from support.redis_server import RedisServer

from turnfleet.wire.broker import celery_settings
from turnfleet_worker.pool.transport import Batching, harden

QUEUE = "batches"
UNACKED = "batches.unacked"
Receive = Callable[[Any], None]


@dataclass
class Desk:
    """A consuming connection as a worker has it, turned by hand. `later` is what it would give to the hub."""

    url: str
    free: int = 100
    later: list[Callable[[], object]] = field(default_factory=list)
    garbage: list[str] = field(default_factory=list)
    received: list[Any] = field(default_factory=list)
    receive: Receive | None = None

    def __post_init__(self) -> None:
        options = {**celery_settings("x", self.url)["broker_transport_options"], "unacked_key": UNACKED}
        options["unacked_index_key"] = f"{UNACKED}_index"
        plain = Connection(self.url, transport_options=options)
        batching = Batching(lambda: self.free - len(self.received), self.later.append)
        self.connection = harden(plain, lambda where, _: self.garbage.append(where), batching)
        self.channel: Any = self.connection.channel()
        self.consumer = Consumer(
            self.channel, [Queue(QUEUE)], on_message=self._take, accept=["json"], auto_declare=True
        )
        self.consumer.consume()

    def turn(self) -> None:
        """Wait for a message; take it and what the channel takes with it."""
        self.connection.drain_events(timeout=60)

    def _take(self, message: Any) -> None:
        self.received.append(message)
        if self.receive is not None:
            self.receive(message)

    def bodies(self) -> list[Any]:
        """Give what was received, in order."""
        return [message.payload for message in self.received]


@pytest.fixture
def broker(own_redis: RedisServer) -> Iterator[redis.Redis]:
    """Give a raw client of a server of the test's own."""
    with redis.Redis(port=own_redis.port, decode_responses=True) as client:
        yield client


@pytest.fixture
def desk(own_redis: RedisServer) -> Iterator[Desk]:
    """Give a consuming connection."""
    desk = Desk(own_redis.url)
    yield desk
    desk.connection.release()


def publish(url: str, *bodies: object, priority: int = 0) -> None:
    """Publish messages as any kombu client would."""
    options = celery_settings("x", url)["broker_transport_options"]
    with Connection(url, transport_options=options) as connection, connection.Producer() as producer:
        for body in bodies:
            producer.publish(body, serializer="json", routing_key=QUEUE, declare=[Queue(QUEUE)], priority=priority)


def test_a_batch_is_noted_as_ours_before_any_of_it_is_looked_at(
    own_redis: RedisServer, broker: redis.Redis, desk: Desk
) -> None:
    """A worker that is killed at its second message loses none of the others: the broker knows who has them."""
    publish(own_redis.url, *range(10))
    seen: list[tuple[int, int]] = []
    desk.receive = lambda _: seen.append((broker.llen(QUEUE), broker.hlen(UNACKED)))
    desk.turn()
    assert desk.bodies() == list(range(10))
    # The first came by kombu's own pop; with the second the other eight had left the list, and were noted.
    assert seen == [(9, 1)] + [(0, 10)] * 9
    assert broker.zcard(f"{UNACKED}_index") == 10


def test_what_a_killed_worker_had_comes_again(own_redis: RedisServer, broker: redis.Redis, desk: Desk) -> None:
    """The note is kombu's own: any other consumer restores from it, priority and all."""
    publish(own_redis.url, "first", "second", "third", priority=3)
    desk.turn()
    for tag in broker.hkeys(UNACKED):
        desk.channel.qos.restore_by_tag(tag)
    other = Desk(own_redis.url)
    try:
        other.turn()
        assert sorted(other.bodies()) == ["first", "second", "third"]
        assert {message.delivery_info["redelivered"] for message in other.received} == {True}
    finally:
        other.connection.release()


def test_no_more_is_taken_than_there_are_slots(own_redis: RedisServer, broker: redis.Redis, desk: Desk) -> None:
    """What does not fit stays in the broker, for other workers (DESIGN 1)."""
    desk.free = 4
    publish(own_redis.url, *range(10))
    desk.turn()
    assert (desk.bodies(), broker.llen(QUEUE)) == ([0, 1, 2, 3], 6)


def test_a_batch_keeps_the_order_of_priorities(own_redis: RedisServer, desk: Desk) -> None:
    """0 is first on kombu's Redis; within one priority the older message is."""
    publish(own_redis.url, "late", "later", priority=9)
    publish(own_redis.url, "middle", priority=5)
    publish(own_redis.url, "soon", "sooner than late", priority=0)
    desk.turn()
    assert desk.bodies() == ["soon", "sooner than late", "middle", "late", "later"]


@pytest.mark.parametrize("item", [b"\xff\xfe", b"{}", b"[1]", b'{"properties": {"delivery_tag": "t"}}', b"null"])
def test_garbage_in_a_batch_is_dropped_alone(
    own_redis: RedisServer, broker: redis.Redis, desk: Desk, item: bytes
) -> None:
    """Its neighbours are received, it is reported, and nothing of it stays to come again."""
    publish(own_redis.url, "one", "two")
    broker.lpush(QUEUE, item)
    publish(own_redis.url, "three")
    desk.turn()
    assert desk.bodies() == ["one", "two", "three"]
    assert len(desk.garbage) == 1
    assert broker.hlen(UNACKED) == 3


def test_a_batch_is_acknowledged_in_one_call(own_redis: RedisServer, broker: redis.Redis, desk: Desk) -> None:
    """Twenty acknowledgements leave with the hub's next turn, as one call."""
    publish(own_redis.url, *range(20))
    desk.turn()
    broker.config_resetstat()
    for message in desk.received:
        message.ack()
    assert broker.hlen(UNACKED) == 20
    (settle,) = desk.later
    settle()
    assert (broker.hlen(UNACKED), broker.zcard(f"{UNACKED}_index")) == (0, 0)
    assert broker.info("commandstats")["cmdstat_hdel"]["calls"] == 1


def test_a_full_broker_is_told_all_the_same(own_redis: RedisServer, broker: redis.Redis, desk: Desk) -> None:
    """To be told frees memory: a server that takes no new work takes acknowledgements."""
    publish(own_redis.url, *range(5))
    desk.turn()
    broker.config_set("maxmemory", "1mb")
    for message in desk.received:
        message.ack()
    (settle,) = desk.later
    settle()
    assert (broker.hlen(UNACKED), broker.zcard(f"{UNACKED}_index")) == (0, 0)


def test_closing_tells_what_was_acknowledged(own_redis: RedisServer, broker: redis.Redis, desk: Desk) -> None:
    """A worker that stops leaves nothing behind that it had done with."""
    publish(own_redis.url, *range(5))
    desk.turn()
    for message in desk.received:
        message.ack()
    desk.channel.close()
    assert (broker.llen(QUEUE), broker.hlen(UNACKED)) == (0, 0)


def test_a_failure_in_the_middle_of_a_batch_puts_the_rest_back(
    own_redis: RedisServer, broker: redis.Redis, desk: Desk
) -> None:
    """A connection that is lost while the third is received: those behind it are in the queue again."""

    def lose(message: Any) -> None:
        if message.payload == "third":
            raise ConnectionResetError

    desk.receive = lose
    publish(own_redis.url, "first", "second", "third", "fourth", "fifth")
    with pytest.raises(ConnectionResetError):
        desk.turn()
    assert desk.bodies() == ["first", "second", "third"]
    assert (broker.llen(QUEUE), broker.hlen(UNACKED)) == (2, 3)


def test_a_broker_that_allows_no_scripts_is_read_one_by_one(
    own_redis: RedisServer, broker: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    """As kombu does; said once, and never again on that channel."""
    broker.acl_setuser("plain", enabled=True, passwords=["+pw"], categories=["+@all", "-@scripting"], keys=["*"])
    desk = Desk(f"redis://plain:pw@127.0.0.1:{own_redis.port}/0")
    try:
        publish(own_redis.url, "one", "two", "three")
        while len(desk.received) < 3:
            desk.turn()
        assert desk.bodies() == ["one", "two", "three"]
        assert caplog.text.count("taken one by one") == 1
    except socket.timeout as error:  # noqa: UP041 - kombu's name for it
        raise AssertionError(f"only {desk.bodies()} came") from error
    finally:
        desk.connection.release()
