"""A fleet with which all is well, and how to make something wrong with it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from turnfleet.doctor.facts import BrokerFacts, Facts, FleetFacts, ServerFacts
from turnfleet.doctor.findings import Finding, Severity
from turnfleet.doctor.judge import judge
from turnfleet.store.commands.survey import Placed, Survey
from turnfleet.store.records import Snapshot, StoredInterrupt
from turnfleet.store.transitions import STATES

NOW = 1_800_000_000_000
QUEUE = "turnfleet.test"
INFO: Mapping[str, Any] = {
    "redis_version": "7.2.4", "role": "master", "uptime_in_seconds": 90_000, "loading": 0, "aof_enabled": 1,
    "aof_last_write_status": "ok", "aof_last_bgrewrite_status": "ok", "rdb_last_bgsave_status": "ok",
    "maxmemory_policy": "noeviction", "evicted_keys": 0, "used_memory": 10_000_000, "maxmemory": 100_000_000,
    "total_system_memory": 8_000_000_000, "connected_clients": 12, "maxclients": 10_000, "cluster_enabled": 0,
}  # fmt: skip
WORKER: Mapping[str, Any] = {
    "worker": "box:11", "version": "0.1.0", "envelopes": [1], "queues": [QUEUE], "shards": 16, "in_flight": 3,
    "draining": False, "clock": {"offset_ms": 2.0, "within_ms": 0.4},
}  # fmt: skip
SERVER = ServerFacts(
    address="box:6379",
    info=INFO,
    config={"appendfsync": "everysec", "min-replicas-to-write": "0"},
    round_trips_ms=(0.2, 0.3, 0.4),
    ahead_ms=1.0,
    within_ms=0.5,
)


def survey(**changes: Any) -> Survey:
    """Return how a fleet stands that has one completed run, with changes."""
    quiet: dict[str, Any] = dict.fromkeys(("overdue", "queued", "parked", "waiting", "failed"), ())
    counts = dict.fromkeys(STATES, 0) | {"completed": 1}
    facts: dict[str, Any] = {"now_ms": NOW, "counts": counts, "overdue_count": 0}
    return Survey(**(facts | quiet | changes))


def placed(run_id: str, state: str, *, ago: float = 0.0, **changes: Any) -> Placed:
    """Return a run that an index has `ago` seconds before now."""
    at = NOW - round(ago * 1000)
    facts: dict[str, Any] = dict.fromkeys(Snapshot.__dataclass_fields__)
    facts |= {"run_id": run_id, "state": state, "queue": QUEUE, "priority": 5, "offers": 1, "losses": 0}
    facts |= {"created_ms": at, "changed_ms": at, "missing": {}, "interrupts": (), "plan_name": "p"}
    return Placed(at, Snapshot(**(facts | changes)))


def approval() -> StoredInterrupt:
    """Return an open approval."""
    return StoredInterrupt(id="approval:c1", kind="approval", payload={"tool": "pay", "arguments": {"to": "a secret"}})


def facts(
    *,
    server: ServerFacts = SERVER,
    info: Mapping[str, Any] | None = None,
    broker: BrokerFacts | None = None,
    workers: tuple[Mapping[str, Any], ...] = (WORKER,),
    stands: Survey | None = None,
) -> Facts:
    """Return the facts of a healthy fleet, with changes; `info` is laid over the server's."""
    if info is not None:
        server = replace(server, info={**INFO, **info})
    return Facts(
        fleet="test",
        version="0.1.0",
        envelope=1,
        shards=16,
        servers=(server,),
        broker=broker or BrokerFacts(same=True, transport="redis", depths={QUEUE: 4}),
        of_fleet=FleetFacts(workers=workers, survey=stands or survey()),
    )


def troubles(given: Facts) -> list[Finding]:
    """Return the findings that are not OK."""
    return [finding for finding in judge(given) if finding.severity is not Severity.OK]
