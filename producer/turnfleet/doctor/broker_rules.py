"""The broker, and queues that nobody reads."""

from collections import Counter
from collections.abc import Iterator

from turnfleet.doctor.facts import Facts
from turnfleet.doctor.findings import Finding, ok, problem, unknown
from turnfleet.doctor.redis_rules import is_full
from turnfleet.doctor.texts import number, some


def judge(facts: Facts) -> Iterator[Finding]:
    """Return what is to be said of the broker."""
    broker = facts.broker
    kind = "the run store's server" if broker.same else f"another server ({broker.transport})"
    if broker.error is not None:
        yield problem(
            "broker.reachable",
            f"the broker, {kind}, does not answer: {broker.error}",
            "mend what is said of the run store"
            if broker.same and any(server.error for server in facts.servers)
            else "start it, or correct --broker; what is enqueued meanwhile is recorded and offered when it is back",
        )
        return
    waiting = sum(depth or 0 for depth in broker.depths.values())
    yield ok("broker.reachable", f"the broker, {kind}, answers; {number(waiting, 'message')} waiting")
    closed = [queue for queue, depth in broker.depths.items() if depth is None]
    if closed:
        yield unknown(
            "broker.queues",
            f"the broker does not let itself be looked into: {some(closed)}",
            "free memory first: a full server does not let itself be asked"
            if broker.same and any(is_full(server.info) for server in facts.servers)
            else "give this user what turnfleet acl --queue NAME prints for the monitor"
            if broker.transport == "redis"
            else "allow this user to declare queues passively",
        )
    yield from _unread(facts)


def _unread(facts: Facts) -> Iterator[Finding]:
    """Messages or queued runs on queues that no live worker consumes; without workers that is no news."""
    workers, survey = facts.of_fleet.workers, facts.of_fleet.survey
    if not workers or survey is None:
        return
    silent = [str(each.get("worker", "?")) for each in workers if "queues" not in each]
    if silent:
        yield unknown(
            "queues.unread",
            f"{some(silent)} did not say which queues they read: whether all are read is not known",
            "upgrade these workers",
        )
        return
    read = {queue for each in workers for queue in each["queues"]}
    runs = Counter(
        placed.run.queue for placed in survey.queued if placed.run.eta_ms is None or placed.run.eta_ms <= survey.now_ms
    )
    unread = sorted((set(runs) | {queue for queue, depth in facts.broker.depths.items() if depth}) - read)
    for queue in unread:
        depth = facts.broker.depths.get(queue, 0)
        held = [] if depth is None else [number(depth, "message")]
        held += [f"at least {number(runs[queue], 'queued run')}"] if runs[queue] else []
        yield problem(
            "queues.unread",
            f"queue {queue!r} has {' and '.join(held)}, and no live worker reads it",
            f"start a worker with -Q {queue}, or have one read it, too: celery -A myfleet control add_consumer {queue}",
        )
    if not unread:
        yield ok("queues.unread", f"live workers read {some(sorted(read))}")
