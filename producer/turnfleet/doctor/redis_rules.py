"""What the run store's Redis must be, and what it should be (docs/guarantees.md says why)."""

import statistics
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from turnfleet.doctor.facts import ServerFacts
from turnfleet.doctor.findings import Finding, ok, problem, unknown, warning
from turnfleet.doctor.texts import number, size, span

OLDEST_VERSION: Final = (7, 0)
FULL, NEARLY_FULL = 0.95, 0.8
SLOW_MS: Final = 5.0
SKEW_MS: Final = 1_000.0
"""A clock that is off by more shows in the times of events, logs and traces, and in an `eta` given as a moment."""

_AWAY: Final = {
    "Authentication": (
        "refuses the login",
        "correct the user and the password in --redis or TURNFLEET_REDIS_URL (@ is %40 there, / is %2F, : is %3A)",
    ),
    "SSLCertVerification": (
        "could not prove who it is",
        "in --redis or TURNFLEET_REDIS_URL, name its authority (?ssl_ca_certs=FILE) and a host of its certificate",
    ),
}
"""What is behind an error: what the server does, and what helps."""

_DOWN: Final = (
    "does not answer",
    "start it, or correct --redis (rediss:// where it speaks TLS); runs wait and none is lost while its data is kept",
)
_COULD_NOT_LOOK: Final = "allow this user {command}, or look by hand"
Info = Mapping[str, Any]


def judge(server: ServerFacts, *, many: bool = False) -> Iterator[Finding]:
    """Return what is to be said of one server; of one of many, its address is said each time."""
    where = f" at {server.address}" if many else ""
    if server.error is not None:
        what, advice = next((said for kind, said in _AWAY.items() if server.error.startswith(kind)), _DOWN)
        yield problem("redis.reachable", f"the run store at {server.address} {what}: {server.error}", advice)
        return
    for finding in _findings(server):
        yield Finding(finding.check, finding.severity, finding.seen + where, finding.advice)


def _findings(server: ServerFacts) -> Iterator[Finding]:
    yield ok("redis.reachable", f"the run store at {server.address} answers")
    if server.info is None:
        yield unknown(
            "redis.info",
            "INFO is refused: version, role, persistence, eviction and memory could not be looked at",
            _COULD_NOT_LOOK.format(command="INFO"),
        )
    else:
        for rule in _INFO_RULES:
            yield from rule(server.info)
        yield from _topology(server, server.info)
    yield from _config(server)
    yield from _latency(server)
    yield from _clock(server)


def _version(info: Info) -> Iterator[Finding]:
    version = str(info.get("valkey_version") or info.get("redis_version") or "")
    name = "Valkey" if "valkey_version" in info else "Redis"
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if len(numbers) != len(OLDEST_VERSION):
        yield unknown("redis.version", "the server does not say its version", "use Redis 7 or newer, or Valkey")
    elif numbers < OLDEST_VERSION:
        yield problem("redis.version", f"{name} {version} is too old", "use Redis 7 or newer, or Valkey")
    else:
        yield ok("redis.version", f"{name} {version}")


def _role(info: Info) -> Iterator[Finding]:
    if info.get("loading"):
        yield warning("redis.role", "the server is still reading its data", "wait until it has; runs wait meanwhile")
    elif info.get("role") == "slave":
        yield problem(
            "redis.role",
            "this is a replica: it takes no writes",
            "point --redis at the master, or at the sentinels (redis+sentinel://host:port/service)",
        )
    else:
        yield ok("redis.role", f"{info.get('role', 'master')}, up for {span(float(info.get('uptime_in_seconds', 0)))}")


def _persistence(info: Info) -> Iterator[Finding]:
    if not info.get("aof_enabled"):
        yield problem(
            "redis.persistence",
            "the append-only file is off: a restart loses every run since the last snapshot, or all of them",
            "CONFIG SET appendonly yes, and appendonly yes in the server's configuration",
        )
        return
    if info.get("aof_last_write_status", "ok") != "ok":
        yield problem(
            "redis.persistence",
            "the last write of the append-only file failed: the server takes no writes",
            "free the disk, and see the server's log",
        )
    elif info.get("aof_last_bgrewrite_status", "ok") != "ok":
        yield warning(
            "redis.persistence",
            "the last rewrite of the append-only file failed: it grows without end",
            "see the server's log; usually the disk is full or memory for the fork is missing",
        )
    else:
        yield ok("redis.persistence", "the append-only file is on and written")


def _snapshots(info: Info) -> Iterator[Finding]:
    if info.get("rdb_last_bgsave_status", "ok") != "ok":
        yield problem(
            "redis.snapshots",
            "the last snapshot failed: with stop-writes-on-bgsave-error (the default) no write is taken",
            "free the disk, or switch snapshots off (CONFIG SET save '') where the append-only file is on",
        )


def _eviction(info: Info) -> Iterator[Finding]:
    policy, evicted = info.get("maxmemory_policy"), int(info.get("evicted_keys", 0))
    if policy is None:
        yield unknown("redis.eviction", "the server does not say its maxmemory-policy", "make sure it is noeviction")
    elif policy != "noeviction":
        gone = f"; it has evicted {number(evicted, 'key')} since it started" if evicted else ""
        yield problem(
            "redis.eviction",
            f"maxmemory-policy is {policy}: under memory pressure runs are silently deleted{gone}",
            "CONFIG SET maxmemory-policy noeviction, and in the server's configuration; workers refuse to start before",
        )
    elif evicted:
        yield warning(
            "redis.eviction",
            f"{number(evicted, 'key')} were evicted since the server started: runs may be gone",
            "the policy is right now; look for runs that are missed, and enqueue them again under their ids",
        )
    else:
        yield ok("redis.eviction", "noeviction")


def is_full(info: Info | None) -> bool:
    """Whether the server refuses what needs memory, or soon will."""
    limit = int((info or {}).get("maxmemory", 0))
    return bool(limit) and int((info or {}).get("used_memory", 0)) >= FULL * limit


def _memory(info: Info) -> Iterator[Finding]:
    used, limit = int(info.get("used_memory", 0)), int(info.get("maxmemory", 0))
    machine = int(info.get("total_system_memory", 0))
    bound = limit or machine
    if not used or not bound:
        yield unknown("redis.memory", "the server does not say how much memory it uses", "look at its machine")
        return
    seen = f"{size(used)} of {size(bound)} used" + ("" if limit else " (the machine's: maxmemory is not set)")
    part = used / bound
    if part >= FULL:
        yield problem(
            "redis.memory",
            f"{seen}: enqueueing is refused, or soon will be",
            "raise maxmemory, shorten retention_seconds, or delete runs that ended",
        )
    elif part >= NEARLY_FULL:
        yield warning("redis.memory", seen, "raise maxmemory, or shorten retention_seconds, before it is full")
    else:
        yield ok("redis.memory", seen)


def _connections(info: Info) -> Iterator[Finding]:
    clients, most = int(info.get("connected_clients", 0)), int(info.get("maxclients", 0))
    if most and clients >= NEARLY_FULL * most:
        yield warning(
            "redis.connections",
            f"{clients} of {most} connections are in use: more are refused",
            "raise maxclients, or look for clients that do not close theirs (CLIENT LIST)",
        )


_INFO_RULES: Final[tuple[Callable[[Info], Iterator[Finding]], ...]] = (
    _version, _role, _persistence, _snapshots, _eviction, _memory, _connections,
)  # fmt: skip


def _topology(server: ServerFacts, info: Info) -> Iterator[Finding]:
    replicas = [value for name, value in info.items() if name.startswith("slave") and isinstance(value, Mapping)]
    away = [each for each in replicas if each.get("state") != "online"]
    kind = "found by sentinels" if server.by_sentinel else "cluster mode" if info.get("cluster_enabled") else "alone"
    if away:
        yield warning(
            "redis.replicas",
            f"{len(away)} of {number(len(replicas), 'replica')} not in step with the master",
            "see the replicas' logs; a failover to one that is behind loses writes",
        )
    elif server.by_sentinel and not replicas:
        yield warning(
            "redis.replicas",
            "sentinels watch this master, and it has no replica: nobody could take over",
            "start a replica (REPLICAOF), or see its log",
        )
    else:
        yield ok("redis.replicas", f"{kind}, {number(len(replicas), 'replica')}")
    if replicas and server.config is not None and server.config.get("min-replicas-to-write", "0") == "0":
        yield warning(
            "redis.replicas",
            "min-replicas-to-write is 0: a master that is cut off from its replicas takes writes which are then lost",
            "CONFIG SET min-replicas-to-write 1, and in the server's configuration",
        )


def _config(server: ServerFacts) -> Iterator[Finding]:
    if server.config is None:
        yield unknown(
            "redis.fsync",
            "CONFIG GET is refused: how often the append-only file reaches the disk could not be looked at",
            _COULD_NOT_LOOK.format(command="CONFIG|GET"),
        )
        return
    if not (server.info or {}).get("aof_enabled"):
        return
    fsync = server.config.get("appendfsync", "")
    if fsync == "no":
        yield warning(
            "redis.fsync",
            "appendfsync is no: a crash of the machine loses what the system had not written, half a minute or more",
            "CONFIG SET appendfsync everysec (or always)",
        )
    else:
        yield ok("redis.fsync", f"appendfsync {fsync}")


def _latency(server: ServerFacts) -> Iterator[Finding]:
    if not server.round_trips_ms:
        return
    median, longest = statistics.median(server.round_trips_ms), max(server.round_trips_ms)
    seen = f"{len(server.round_trips_ms)} round trips: median {median:.2f} ms, longest {longest:.2f} ms"
    if median >= SLOW_MS:
        advice = "each round of a run waits for at least two; look at the network, slow commands (SLOWLOG GET) and load"
        yield warning("redis.latency", seen, advice)
    else:
        yield ok("redis.latency", seen)


def _clock(server: ServerFacts) -> Iterator[Finding]:
    if server.ahead_ms is None:
        return
    off = abs(server.ahead_ms)
    if off - server.within_ms > SKEW_MS:
        which = "ahead of" if server.ahead_ms > 0 else "behind"
        yield warning(
            "clock.here",
            f"this machine's clock is {span(off / 1000)} {which} the run store's",
            "keep clocks in step (NTP): an eta or expires given as a moment is off by as much",
        )
    else:
        yield ok("clock.here", f"this machine's clock is within {max(off, server.within_ms):.0f} ms of the run store's")
