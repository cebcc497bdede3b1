"""What the sweep goes by, and what it did."""

from dataclasses import dataclass

from turnfleet.store.records.runs import Offer

__all__ = ["EndedRun", "LostTask", "SweepPolicy", "Swept"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPolicy:
    """What the sweep goes by.

    `max_attempts` leases lost in a row end a run `failed`. A queued run's message counts as lost after
    `reoffer_after_ms`, then after twice that, and so on up to `reoffer_cap_ms`. `ttl_ms`: how long an ended run is
    kept. `quiet_ms`: a server that started, or took over from another, less than this ago takes no lease back, so that
    owners can renew first. `hold_ms`: no lease is taken back for this long, because the caller knows of an outage.
    """

    max_attempts: int = 5
    reoffer_after_ms: int = 10_000
    reoffer_cap_ms: int = 600_000
    ttl_ms: int = 86_400_000
    quiet_ms: int = 0
    hold_ms: int = 0


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A run that the sweep ended, for those who wait behind it in its thread."""

    run_id: str
    state: str
    thread_id: str | None
    plan_name: str


@dataclass(frozen=True, slots=True)
class LostTask:
    """A Celery task whose worker was lost: its lease ran out, and the sweep took its run back.

    `state` is what the run is now: `queued`, to go on under its offer number `offers`, or ended, `failed` with `error`.
    """

    run_id: str
    task_id: str
    worker: str
    state: str
    offers: int
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What one sweep of a shard did. `more`: it stopped at its limit; sweep again. `now_ms`: when, by the server.

    `late`: it came too late to be believed, and did nothing. `lost_tasks`: of the `lost` leases, those whose task is
    known. `unseen`: queues of runs whose message may be lost, where nobody looked.
    """

    offers: tuple[Offer, ...]
    ended: tuple[EndedRun, ...]
    lost: int
    expired: int
    failed: int
    decided: int
    more: bool
    now_ms: int
    late: bool
    lost_tasks: tuple[LostTask, ...] = ()
    unseen: tuple[str, ...] = ()
