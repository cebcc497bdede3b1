"""The fleet that a bench works in: its own, empty before and gone afterwards."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import redis
from celery import Celery
from kombu.exceptions import OperationalError

from turnfleet.store import Keys, commands
from turnfleet.store.place import cluster_place
from turnfleet.store.sync import SyncExecutor
from turnfleet.store.transitions import STATES
from turnfleet_kernel.errors import TurnfleetError

OWN_PREFIX: Final = "bench-"
KOMBU_DEADLINES: Final = "_kombu.binding_deadlines"
"""Where kombu notes until when a queue that expires is bound; it sweeps what is overdue."""

_BATCH: Final = 500


class FleetInUse(TurnfleetError):
    """The fleet to be measured has runs or workers of others."""


class Place:
    """A fleet by its name, at the store that `executor` reaches."""

    def __init__(self, executor: SyncExecutor, name: str, key_prefix: str = "") -> None:
        self._executor = executor
        self.name = name
        self.keys = Keys(name, key_prefix=key_prefix)

    def require_empty(self) -> None:
        """Raise `FleetInUse` where a run or a live worker is: their work would spoil the figures, and ours theirs."""
        runs = sum(self.size(state) for state in STATES)
        workers = len(self._executor.execute(commands.announced(self.keys)))
        if runs or workers:
            raise FleetInUse(
                f"fleet {self.name!r} has {runs} runs and {workers} workers, and a bench wants an empty one: leave "
                "--fleet away, then it makes one of its own"
            )

    def size(self, state: str) -> int:
        """Count the runs in a state."""
        pages = self._executor.execute_many(
            [commands.browse(self.keys, shard, state=state, limit=1) for shard in range(self.keys.shards)]
        )
        return sum(0 if isinstance(page, TurnfleetError) else page.size for page in pages)

    def forget(self, run_ids: Sequence[str]) -> None:
        """Cancel and delete runs, whatever became of them."""
        for start in range(0, len(run_ids), _BATCH):
            batch = run_ids[start : start + _BATCH]
            self._executor.execute_many([commands.cancel(self.keys, each, reason="bench") for each in batch])
            self._executor.execute_many([commands.delete(self.keys, each) for each in batch])


def sweep_up(urls: Iterable[str], name: str, key_prefix: str = "") -> None:
    """Delete what a fleet of a name of ours left on Redis servers: indexes, announcements, kombu's lists."""
    assert name.startswith(OWN_PREFIX), "only names that nobody else can have are safe to look for"
    for url in urls:
        executor = SyncExecutor(url)
        try:
            for client in executor.clients():
                _delete(client, f"{key_prefix}*{name}*")
                if cluster_place(url) is not None:
                    continue  # no broker is in a cluster
                deadlines = f"{key_prefix}{KOMBU_DEADLINES}"
                for member, _ in client.zscan_iter(deadlines, match=f"*{name}*"):
                    client.zrem(deadlines, member)
        finally:
            executor.close()


def _delete(client: redis.Redis, pattern: str) -> None:
    for key in client.scan_iter(match=pattern, count=_BATCH):
        client.delete(key)  # one by one: in a cluster their slots differ


def clear_broker(app: Celery, queue: str) -> None:
    """Delete an app's queue on a broker, and its exchanges where they outlive it; as far as the broker answers."""
    try:
        with app.connection_for_write() as connection, connection.channel() as opened:
            channel: Any = opened  # every transport has these two; its published type does not know
            channel.queue_delete(queue)
            if connection.transport.driver_type == "amqp":
                control = f"{queue}.control.pidbox"
                for exchange in (queue, f"{queue}.events", control, f"reply.{control}"):
                    channel.exchange_delete(exchange)
    except (OperationalError, OSError):
        return  # it went away; a broker of our own goes with everything in it
