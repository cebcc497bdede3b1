"""The composition root: every adapter of a worker process is constructed here and nowhere else."""

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from celery import Celery
from prometheus_client import ProcessCollector as SystemCollector

from turnfleet.store import Keys
from turnfleet.store.executor import AsyncExecutor, SyncExecutor
from turnfleet.store.place import check_address
from turnfleet.store.records import SweepPolicy
from turnfleet.wire.limits import SizeLimits
from turnfleet.wire.publish import Publisher
from turnfleet.wire.signing import SigningKeys
from turnfleet.wire.versions import VERSIONS
from turnfleet_kernel import InvocationKernel
from turnfleet_kernel.defaults import SystemClock
from turnfleet_kernel.ports import Clock
from turnfleet_worker.announcement import Announcer
from turnfleet_worker.apart import Apart
from turnfleet_worker.backlog import Backlog
from turnfleet_worker.celery_app import build
from turnfleet_worker.claimed_runs import ClaimedRuns
from turnfleet_worker.control import ControlListener
from turnfleet_worker.dispatch import Dispatcher
from turnfleet_worker.heartbeat import Heartbeat
from turnfleet_worker.host import Parts, WorkerHost
from turnfleet_worker.intake import Intake
from turnfleet_worker.metrics import NO_METER, Meter
from turnfleet_worker.metrics.endpoint import Endpoint, Place, metrics_place
from turnfleet_worker.metrics.prometheus import PrometheusMeter
from turnfleet_worker.metrics.scraped import FleetCollector, OwnRegistry, ProcessCollector
from turnfleet_worker.misfits import Misfits
from turnfleet_worker.offers import BrokerOffers, Offers
from turnfleet_worker.people import MILLISECONDS
from turnfleet_worker.plans import Plans
from turnfleet_worker.registry import Registry
from turnfleet_worker.revokes import Revokes
from turnfleet_worker.settings import WorkerSettings
from turnfleet_worker.sweep import Sweeper
from turnfleet_worker.trust import Trust
from turnfleet_worker.turns import Turns
from turnfleet_worker.workbench import Bench

ANNOUNCED_BEATS = 4
"""A worker that missed this many heartbeats is no longer counted among the living."""


def create_app(
    registry: Registry,
    url: str,
    *,
    name: str = "default",
    broker_url: str | None = None,
    settings: WorkerSettings | None = None,
    allow_eviction: bool = False,
    signing: SigningKeys | None = None,
    key_prefix: str = "",
    limits: SizeLimits | None = None,
) -> Celery:
    """Return the Celery app of a fleet: `celery -A myfleet worker -c 200` hosts its runs.

    `url` is the run store's Redis, and the broker's too unless `broker_url` names another. `name` is the fleet's.
    `allow_eviction` lets a worker run on a Redis that may delete runs under memory pressure. With `signing` a worker
    runs only what one of the keys signed (docs/security.md). Every key and channel of the fleet begins with
    `key_prefix`, on the store's Redis and on the broker's. `limits` is for messages of clients
    that are not ours. Nothing is connected here. Raises `InvalidId` for a name that queue and key names cannot carry,
    `InvalidAddress` for a URL that names no Redis, and TypeError for a registry or settings that are none.
    """
    settings = settings or WorkerSettings()
    for given, wanted in ((registry, Registry), (settings, WorkerSettings)):
        if not isinstance(given, wanted):
            raise TypeError(f"create_app takes a {wanted.__name__}, not {given!r:.80}")
    check_address(url)
    keys = fleet_keys(name, settings, key_prefix)

    def host_of_process(app: Celery) -> WorkerHost:
        around = Surroundings(
            worker=f"{socket.gethostname()}:{os.getpid()}",
            executor=AsyncExecutor(url),
            beats=SyncExecutor(url),
            offers=BrokerOffers(Publisher(app, keys.fleet, signing=signing), Backlog(app)),
            queues=lambda: sorted(app.amqp.queues.consume_from),
            metrics=metrics_place(settings, os.environ),
        )
        return make_host(
            registry, keys, settings, around, allow_eviction=allow_eviction, signing=signing, limits=limits
        )

    return build(host_of_process, fleet=name, broker_url=broker_url or url, settings=settings, key_prefix=key_prefix)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a worker stands on: its name, the run store (with await, and for its heartbeat), and the broker.

    `queues` says which of the broker's queues it reads at the moment; `clock` is what it and its runs tell the time by;
    `metrics` is where it serves its metrics, None for nowhere.
    """

    worker: str
    executor: AsyncExecutor
    beats: SyncExecutor
    offers: Offers
    queues: Callable[[], Sequence[str]] = tuple
    clock: Clock = field(default_factory=SystemClock)
    metrics: Place | None = None


def fleet_keys(name: str, settings: WorkerSettings, key_prefix: str = "") -> Keys:
    """Return the keys of a fleet's run store. Raises `InvalidId` for a name or a prefix that they cannot carry."""
    return Keys(
        name,
        settings.shards,
        log_batches=settings.event_log_batches,
        first_look_ms=round(settings.reoffer_after_seconds * MILLISECONDS),
        key_prefix=key_prefix,
    )


def make_host(
    registry: Registry,
    keys: Keys,
    settings: WorkerSettings,
    around: Surroundings,
    *,
    allow_eviction: bool = False,
    signing: SigningKeys | None = None,
    limits: SizeLimits | None = None,
) -> WorkerHost:
    """Return the host of one worker, not started."""
    host = WorkerHost()
    trust = Trust(signing, keys.fleet, host.counts)
    worker, executor, offers = around.worker, around.executor, around.offers
    turns = Turns(executor, keys, offers)
    plans = Plans(registry, clock=around.clock)
    ttl_ms = round(settings.retention_seconds * MILLISECONDS)
    misfits = Misfits(executor, keys, offers, worker=worker, ttl_ms=ttl_ms)
    started = around.clock.now().timestamp()
    meter, endpoint = NO_METER, None
    if around.metrics is not None:
        meter, endpoint = _metrics(around.metrics, lambda: host.pool_info() or host.info())

    def body() -> Mapping[str, Any]:
        pool = host.pool_info()
        return {
            "worker": worker,
            "node": pool.get("node"),
            "started": started,
            "in_flight": host.in_flight,
            "slots": pool.get("limit"),
            "draining": host.draining,
            "counts": dict(host.counts),
            "version": version("turnfleet"),
            "envelopes": list(VERSIONS.served),
            "signing": list(signing.names) if signing else None,
            "queues": list(around.queues()),
            "shards": keys.shards,
            "metrics": endpoint.where if endpoint else None,
            **registry.describe_capabilities(),
        }

    bench = Bench(
        kernel=InvocationKernel(),
        executor=executor,
        keys=keys,
        registry=registry,
        settings=settings,
        draining=lambda: host.handing_over,
        meter=meter,
        trust=trust,
    )
    apart = Apart(settings.drain_seconds)
    revokes = Revokes(executor, keys, turns, ttl_ms=ttl_ms)
    heartbeat = Heartbeat(
        around.beats,
        keys,
        lease_ms=round(settings.lease_seconds * MILLISECONDS),
        every_seconds=settings.heartbeat_seconds,
        verdict=host.heard_beat,
    )
    runs = ClaimedRuns(
        bench,
        worker=worker,
        plans=plans,
        offers=offers,
        turns=turns,
        heartbeat=heartbeat,
        apart=apart,
        misfits=misfits,
        revokes=revokes,
        counts=host.counts,
    )
    host.assemble(
        Parts(
            executor=executor,
            dispatcher=Dispatcher(
                bench,
                worker=worker,
                intake=Intake(keys.fleet, trust, limits or SizeLimits(), host.counts),
                turns=turns,
                apart=apart,
                revokes=revokes,
                runs=runs,
                draining=lambda: host.draining,
                counts=host.counts,
            ),
            runs=runs,
            offers=offers,
            heartbeat=heartbeat,
            sweeper=Sweeper(
                executor,
                keys,
                owner=worker,
                every_seconds=settings.sweep_seconds,
                policy=SweepPolicy(
                    max_attempts=settings.max_attempts,
                    reoffer_after_ms=round(settings.reoffer_after_seconds * MILLISECONDS),
                    ttl_ms=ttl_ms,
                    quiet_ms=round(settings.lease_seconds * MILLISECONDS),
                ),
                offers=offers,
                turns=turns,
                fits=lambda run_id, plan_id, plan: misfits.may_go_on(run_id) and plans.fits(plan_id, plan),
                clock=around.clock.monotonic,
                meter=meter,
                send_event=host.send_event,
            ),
            announcer=Announcer(
                executor,
                keys,
                worker,
                every_seconds=settings.heartbeat_seconds,
                ttl_ms=round(settings.heartbeat_seconds * ANNOUNCED_BEATS * MILLISECONDS),
                body=body,
                clock=lambda: around.clock.now().timestamp(),
            ),
            control=ControlListener(executor, keys, runs.heard_cancel),
            apart=apart,
            misfits=misfits,
            revokes=revokes,
            allow_eviction=allow_eviction,
            endpoint=endpoint,
        )
    )
    return host


def _metrics(place: Place, info: Callable[[], Mapping[str, Any]]) -> tuple[Meter, Endpoint]:
    registry, fleet = OwnRegistry(), FleetCollector()
    registry.register(ProcessCollector(info, version("turnfleet")))
    registry.register(fleet)
    SystemCollector(registry=registry)
    return PrometheusMeter(registry, fleet), Endpoint(registry, place)
