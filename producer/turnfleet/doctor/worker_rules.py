"""The live workers: whether there are any, and whether they fit each other and this client."""

from collections import Counter
from collections.abc import Iterator

from turnfleet.doctor.facts import Facts
from turnfleet.doctor.findings import Finding, ok, problem, unknown, warning
from turnfleet.doctor.redis_rules import SKEW_MS
from turnfleet.doctor.texts import number, some, span


def judge(facts: Facts) -> Iterator[Finding]:
    """Return what is to be said of the workers; nothing when they could not be asked for."""
    if facts.of_fleet.error is not None:
        yield unknown(
            "workers.alive",
            f"workers and runs could not be looked at: {facts.of_fleet.error}",
            "mend what is said above first; with ACLs, allow this user the fleet's keys and scripts",
        )
        return
    if not facts.of_fleet.workers:
        yield problem(
            "workers.alive",
            f"no worker of fleet {facts.fleet!r} is alive",
            "start one (celery -A myfleet worker, or turnfleet worker --app module:registry); if one should run: is it "
            "frozen, killed, or of another --fleet or Redis?",
        )
        return
    yield from _alive(facts)
    yield from _versions(facts)
    yield from _shards(facts)
    yield from _keys(facts)
    yield from _clocks(facts)


def _alive(facts: Facts) -> Iterator[Finding]:
    workers = facts.of_fleet.workers
    draining = [str(each.get("worker", "?")) for each in workers if each.get("draining")]
    busy = sum(int(each.get("in_flight", 0)) for each in workers)
    seen = f"{number(len(workers), 'worker')} alive, {number(busy, 'run')} at work"
    if len(draining) == len(workers):
        yield problem("workers.alive", f"{seen}, and all of them are stopping", "start new ones")
    else:
        yield ok("workers.alive", seen + (f", {len(draining)} stopping" if draining else ""))


def _versions(facts: Facts) -> Iterator[Finding]:
    workers = facts.of_fleet.workers
    deaf = [str(each.get("worker", "?")) for each in workers if facts.envelope not in each.get("envelopes", ())]
    if deaf:
        yield problem(
            "workers.envelopes",
            f"this client (turnfleet {facts.version}) writes envelope version {facts.envelope}, "
            f"which is not served by {some(deaf)}",
            "upgrade these workers before the producers: a worker serves its version's envelopes and the one before",
        )
    versions = Counter(str(each.get("version", "?")) for each in workers)
    listed = ", ".join(f"{count} x {version}" for version, count in sorted(versions.items()))
    if len(versions) > 1:
        yield warning(
            "workers.versions",
            f"workers of different versions are alive: {listed}",
            "finish the roll-out; it may be under way",
        )
    elif facts.version not in versions:
        yield warning(
            "workers.versions",
            f"workers are turnfleet {', '.join(versions)}, and this client is {facts.version}",
            "use the same version here, or one that is one release older",
        )
    else:
        yield ok("workers.versions", f"turnfleet {facts.version} here and on all workers")


def _shards(facts: Facts) -> Iterator[Finding]:
    others = {each["shards"] for each in facts.of_fleet.workers if each.get("shards", facts.shards) != facts.shards}
    if others:
        counts = ", ".join(map(str, sorted(others)))
        yield problem(
            "workers.shards",
            f"workers keep runs on {counts} shards, and this client looks at {facts.shards}: they miss each other's",
            "use the same number of shards for every producer and worker of the fleet",
        )


def _keys(facts: Facts) -> Iterator[Finding]:
    """Signing keys by name; nothing where no worker has any."""
    held = {str(each.get("worker", "?")): set(each.get("signing") or ()) for each in facts.of_fleet.workers}
    known = set().union(*held.values())
    if not known:
        return
    careless = sorted(worker for worker, names in held.items() if not names)
    lacking = sorted(worker for worker, names in held.items() if names and names != known)
    if careless:
        yield warning(
            "workers.signing",
            f"{some(careless)} without signing keys: they run whatever is sent, signed or not",
            "give them TURNFLEET_SIGNING_KEYS and signing= as the others have, and restart them",
        )
    if lacking:
        yield warning(
            "workers.signing",
            f"{some(lacking)} without all of the keys {some(sorted(known))}: what a missing one signed fails there",
            "finish the rotation: the same keys for all workers, added before a producer signs with them",
        )
    if not careless and not lacking:
        yield ok("workers.signing", f"all workers check signatures, by {some(sorted(known))}")


def _clocks(facts: Facts) -> Iterator[Finding]:
    off: dict[str, float] = {}
    for each in facts.of_fleet.workers:
        clock = each.get("clock") or {}
        if abs(clock.get("offset_ms", 0.0)) - clock.get("within_ms", 0.0) > SKEW_MS:
            off[str(each.get("worker", "?"))] = clock["offset_ms"]
    if off:
        longest = max(off.values(), key=abs)
        which = "ahead of" if longest > 0 else "behind"
        yield warning(
            "clock.workers",
            f"clocks are off on {some(sorted(off))}: up to {span(abs(longest) / 1000)} {which} the run store's",
            "keep clocks in step (NTP): leases go by the run store's clock and are safe, but the times in events, logs "
            "and traces are off",
        )
    elif any(each.get("clock") for each in facts.of_fleet.workers):
        yield ok("clock.workers", "the workers' clocks are in step with the run store's")
