"""What concerns a whole fleet or a whole shard: the sweep, its lock, and the announcements of live workers."""

from collections.abc import Collection, Mapping
from typing import Any

from turnfleet.store.command import Command, Reply, args, dump, header, load_json, read_offer, text
from turnfleet.store.keys import Keys
from turnfleet.store.records import EndedRun, LostTask, SweepPolicy, Swept


def sweep(
    keys: Keys,
    shard: int,
    policy: SweepPolicy,
    limit: int = 200,
    *,
    waiting_since: Mapping[tuple[str, int], int] | None = None,
    looked: Collection[str] | None = None,
    sent_ms: int | None = None,
) -> Command[Swept]:
    """Look at up to `limit` runs of a shard that are due, and let the script do what each one needs.

    `waiting_since`: when the oldest message that waits on the broker was offered, by queue and priority. A run that
    was offered no earlier has not been reached, so its message does not count as lost. `looked`: the queues that were
    looked into for that (None: all there are); a run on another one is not offered again yet, and its queue is
    `unseen`. `sent_ms`: the time by the server's clock when this is sent, as far as the caller knows; with
    `policy.quiet_ms`, a sweep that comes more than a quarter of it later, or says nothing, is `late` and does nothing.
    """
    arguments = (
        *header(keys),
        *args(limit, policy.max_attempts, policy.reoffer_after_ms, policy.reoffer_cap_ms),
        *args(policy.ttl_ms, policy.quiet_ms, policy.hold_ms, sent_ms),
        *_waiting(waiting_since or {}),
        *args(looked is None, len(looked or ()), *(looked or ())),
    )

    def decode(reply: Reply) -> Swept:
        offers, ended, counts, now, late, lost_tasks, unseen = reply
        lost, expired, failed, decided, more = map(int, counts)
        return Swept(
            offers=tuple(offer for offer in map(read_offer, offers) if offer is not None),
            ended=tuple(
                EndedRun(run.decode(), state.decode(), text(thread), plan.decode())
                for run, state, thread, plan in ended
            ),
            lost=lost,
            expired=expired,
            failed=failed,
            decided=decided,
            more=bool(more),
            now_ms=int(now),
            late=late == b"1",
            lost_tasks=tuple(map(_lost_task, lost_tasks)),
            unseen=tuple(queue.decode() for queue in unseen),
        )

    return Command("sweep", keys.prefix(shard), arguments, decode, repeatable=False)


def _lost_task(reply: Reply) -> LostTask:
    run, task, worker, state, offers, error = reply
    return LostTask(run.decode(), task.decode(), worker.decode(), state.decode(), int(offers), error.decode() or None)


def _waiting(since: Mapping[tuple[str, int], int]) -> tuple[bytes, ...]:
    return args(len(since), *(part for (queue, priority), at in since.items() for part in (queue, priority, at)))


def _yes(reply: Reply) -> bool:
    return bool(reply == b"1")


def _nothing(_reply: Reply) -> None:
    return None


def sweep_lock(keys: Keys, owner: str, ttl_ms: int) -> Command[bool]:
    """Take or renew the sweep's lock for `ttl_ms`; False when another owner has it."""
    return Command("sweep_lock", keys.sweep_lock, (*header(keys), *args(owner, ttl_ms)), _yes)


def announce(keys: Keys, worker: str, body: Mapping[str, Any], ttl_ms: int) -> Command[int]:
    """Say that a worker is alive for the next `ttl_ms`, and what it can run (JSON); gives the server's time (ms)."""
    return Command("announce", keys.workers, (*header(keys), *args(worker, dump(body), ttl_ms)), int)


def retract(keys: Keys, worker: str) -> Command[None]:
    """Take a worker's announcement back."""
    return Command("announce", keys.workers, (*header(keys), *args(worker, None, 0)), _nothing)


def clock(keys: Keys) -> Command[float]:
    """Give the fleet's time: Unix seconds by the clock of its server (of a cluster, the one that has its workers)."""

    def decode(reply: Reply) -> float:
        seconds, microseconds = map(int, reply)
        return seconds + microseconds / 1_000_000

    return Command("clock", keys.workers, header(keys), decode)


def workers(keys: Keys) -> Command[tuple[dict[str, Any], ...]]:
    """Give the announcements of the workers that are alive, by Redis' clock."""
    return Command("workers", keys.workers, header(keys), lambda reply: tuple(map(load_json, reply)))


def announced(keys: Keys) -> Command[tuple[dict[str, Any], ...]]:
    """Give what `workers` gives; writes nothing."""
    return Command("announced", keys.workers, header(keys), lambda reply: tuple(map(load_json, reply)))
