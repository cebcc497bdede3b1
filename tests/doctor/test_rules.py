"""From facts to findings: each rule, without any server."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from doctor.healthy import INFO, NOW, QUEUE, SERVER, WORKER, approval, facts, placed, survey, troubles

from turnfleet.doctor.facts import BrokerFacts, Facts, FleetFacts, ServerFacts
from turnfleet.doctor.findings import Finding, Severity, worst
from turnfleet.doctor.judge import judge
from turnfleet.doctor.texts import size, some, span


def test_a_healthy_fleet_has_findings_and_none_of_them_is_bad() -> None:
    """What was looked at is said, too: nobody should wonder whether it was."""
    findings = judge(facts())
    assert {finding.severity for finding in findings} == {Severity.OK}
    assert worst(findings) is Severity.OK
    assert {finding.check for finding in findings} == {
        "redis.reachable", "redis.version", "redis.role", "redis.persistence", "redis.eviction", "redis.memory",
        "redis.replicas", "redis.fsync", "redis.latency", "clock.here", "broker.reachable", "queues.unread",
        "workers.alive", "workers.versions", "clock.workers", "runs.counts", "runs.stuck",
    }  # fmt: skip


def only(given: Facts) -> Finding:
    """Return the one finding that is not OK; it says what to do."""
    (finding,) = troubles(given)
    assert finding.seen
    assert finding.advice
    return finding


@pytest.mark.parametrize(
    ("info", "check", "severity", "said"),
    [
        ({"redis_version": "6.2.14"}, "redis.version", "problem", "Redis 6.2.14 is too old"),
        ({"redis_version": "unstable"}, "redis.version", "unknown", "does not say its version"),
        ({"loading": 1}, "redis.role", "warning", "still reading its data"),
        ({"role": "slave"}, "redis.role", "problem", "takes no writes"),
        ({"aof_last_write_status": "err"}, "redis.persistence", "problem", "takes no writes"),
        ({"aof_last_bgrewrite_status": "err"}, "redis.persistence", "warning", "rewrite"),
        ({"rdb_last_bgsave_status": "err"}, "redis.snapshots", "problem", "last snapshot failed"),
        ({"maxmemory_policy": "allkeys-lru"}, "redis.eviction", "problem", "allkeys-lru"),
        ({"maxmemory_policy": "volatile-ttl", "evicted_keys": 3}, "redis.eviction", "problem", "evicted 3 keys"),
        ({"evicted_keys": 1}, "redis.eviction", "warning", "1 key"),
        ({"maxmemory_policy": None}, "redis.eviction", "unknown", "maxmemory-policy"),
        ({"used_memory": 96_000_000}, "redis.memory", "problem", "92 MB of 95 MB used: enqueueing is refused"),
        ({"used_memory": 81_000_000}, "redis.memory", "warning", "77 MB of 95 MB"),
        ({"used_memory": 7_900_000_000, "maxmemory": 0}, "redis.memory", "problem", "maxmemory is not set"),
        ({"used_memory": 0}, "redis.memory", "unknown", "how much memory"),
        ({"connected_clients": 9_000}, "redis.connections", "warning", "9000 of 10000"),
        ({"slave0": {"state": "wait_bgsave"}}, "redis.replicas", "warning", "1 of 1 replica not in step"),
        ({"slave0": {"state": "online"}}, "redis.replicas", "warning", "min-replicas-to-write is 0"),
    ],
)
def test_what_info_tells(info: Mapping[str, Any], check: str, severity: str, said: str) -> None:
    """One rule each."""
    given = facts(info=info)
    if "slave0" in info and info["slave0"]["state"] != "online":
        given = facts(server=replace(SERVER, config={"min-replicas-to-write": "1"}), info=info)
    finding = only(given)
    assert (finding.check, finding.severity) == (check, severity)
    assert said in finding.seen


def test_without_an_append_only_file_how_often_it_is_written_is_not_said() -> None:
    """One problem, not two."""
    given = facts(info={"aof_enabled": 0})
    assert only(given).check == "redis.persistence"
    assert "redis.fsync" not in {finding.check for finding in judge(given)}


@pytest.mark.parametrize(
    ("change", "check", "severity", "said"),
    [
        ({"config": None}, "redis.fsync", "unknown", "CONFIG GET is refused"),
        ({"config": {"appendfsync": "no"}}, "redis.fsync", "warning", "appendfsync is no"),
        ({"info": None}, "redis.info", "unknown", "INFO is refused"),
        ({"round_trips_ms": (5.0, 9.0, 1.0)}, "redis.latency", "warning", "median 5.00 ms, longest 9.00 ms"),
        ({"ahead_ms": 90_000.0}, "clock.here", "warning", "90 s ahead of"),
        ({"ahead_ms": -7_200_000.0}, "clock.here", "warning", "2 h behind"),
        ({"by_sentinel": True}, "redis.replicas", "warning", "no replica"),
    ],
)
def test_what_a_server_shows_by_itself(change: Mapping[str, Any], check: str, severity: str, said: str) -> None:
    """Refusals are findings, too: "could not look" is not "all is well"."""
    finding = only(facts(server=replace(SERVER, **change)))
    assert (finding.check, finding.severity) == (check, severity)
    assert said in finding.seen


def test_a_slow_answer_is_no_skew() -> None:
    """What the answer took is taken off before a clock is called wrong."""
    assert troubles(facts(server=replace(SERVER, ahead_ms=1_400.0, within_ms=700.0))) == []


def test_of_a_server_that_is_down_only_that_is_said() -> None:
    """And that workers and runs could not be looked at."""
    down = replace(
        facts(server=ServerFacts(address="box:6379", error="ConnectionError")),
        broker=BrokerFacts(same=True, transport="redis", error="ConnectionError"),
        of_fleet=FleetFacts(error="see above"),
    )
    assert [(each.check, each.severity) for each in judge(down)] == [
        ("redis.reachable", "problem"),
        ("broker.reachable", "problem"),
        ("workers.alive", "unknown"),
    ]


def test_keys_that_all_workers_have_are_well() -> None:
    """It is said, as all that is well; and nothing of keys where nobody has any."""
    signed = {each.check: each for each in judge(facts(workers=({**WORKER, "signing": ["2026-11"]},)))}
    assert (signed["workers.signing"].severity, signed["workers.signing"].seen) == (
        Severity.OK,
        "all workers check signatures, by 2026-11",
    )


def test_a_login_that_is_refused_is_no_server_that_is_down() -> None:
    """Nothing is to be started then; and of one server with two parts the remedy is said once."""
    error = "AuthenticationError: WRONGPASS"
    refused = replace(
        facts(server=ServerFacts(address="box:6379", error=error)),
        broker=BrokerFacts(same=True, transport="redis", error="OperationalError"),
        of_fleet=FleetFacts(error="see above"),
    )
    store, broker, _ = judge(refused)
    assert store.seen == f"the run store at box:6379 refuses the login: {error}"
    assert "TURNFLEET_REDIS_URL" in store.advice
    assert broker.advice == "mend what is said of the run store"


def test_a_full_server_is_not_taken_for_one_that_forbids() -> None:
    """It refuses a look into its queues, too: what helps is memory, not a permission."""
    full = replace(SERVER, info={**INFO, "used_memory": 99_000_000})
    found = troubles(
        replace(facts(server=full), broker=BrokerFacts(same=True, transport="redis", depths={QUEUE: None}))
    )
    assert [(each.check, each.severity) for each in found] == [
        ("redis.memory", "problem"),
        ("broker.queues", "unknown"),
    ]
    assert found[-1].advice.startswith("free memory first")


def test_servers_of_a_cluster_are_told_apart() -> None:
    """Each finding of one of many says whose it is."""
    other = replace(SERVER, address="box:6380", config=None)
    (finding,) = troubles(replace(facts(), servers=(SERVER, other)))
    assert finding.seen.endswith("at box:6380")


@pytest.mark.parametrize(
    ("workers", "check", "severity", "said"),
    [
        ((), "workers.alive", "problem", "no worker of fleet 'test' is alive"),
        (({**WORKER, "draining": True},), "workers.alive", "problem", "all of them are stopping"),
        (({**WORKER, "envelopes": [2, 3]},), "workers.envelopes", "problem", "not served by box:11"),
        (({**WORKER, "version": "0.2.0"},), "workers.versions", "warning", "workers are turnfleet 0.2.0"),
        ((WORKER, {**WORKER, "version": "0.2.0"}), "workers.versions", "warning", "1 x 0.1.0, 1 x 0.2.0"),
        (({**WORKER, "shards": 32},), "workers.shards", "problem", "on 32 shards"),
        (
            ({**WORKER, "signing": ["new"]}, {**WORKER, "worker": "open:3", "signing": None}),
            "workers.signing", "warning", "open:3 without signing keys",
        ),
        (
            ({**WORKER, "signing": ["old", "new"]}, {**WORKER, "worker": "late:2", "signing": ["old"]}),
            "workers.signing", "warning", "late:2 without all of the keys new, old",
        ),
        (
            (WORKER, {**WORKER, "worker": "late:2", "clock": {"offset_ms": -65_000, "within_ms": 1}}),
            "clock.workers", "warning", "clocks are off on late:2: up to 65 s behind",
        ),
        (({name: WORKER[name] for name in WORKER if name != "queues"},), "queues.unread", "unknown", "did not say"),
        (({**WORKER, "queues": ["other"]},), "queues.unread", "problem", "'turnfleet.test' has 4 messages"),
    ],
)  # fmt: skip
def test_what_workers_announce(workers: tuple[Any, ...], check: str, severity: str, said: str) -> None:
    """Whether there are any, and whether they fit each other and this client."""
    finding = only(facts(workers=workers))
    assert (finding.check, finding.severity) == (check, severity)
    assert said in finding.seen


@pytest.mark.parametrize(
    ("stands", "check", "severity", "said"),
    [
        (
            {"overdue": (placed("r1", "running", ago=45, worker="box:9"),), "overdue_count": 1},
            "runs.stuck", "problem", "1 run (r1) still running by the record, and the lease of their worker ended 45 s",
        ),
        ({"overdue": (placed("r1", "queued", ago=300),), "overdue_count": 1}, "runs.stuck", "problem", "5 min"),
        ({"overdue": (placed("r1", "paused", ago=90),), "overdue_count": 1}, "runs.stuck", "problem", "past the"),
        ({"overdue": (placed("r1", "parked", ago=90),), "overdue_count": 1}, "runs.stuck", "problem", "past their"),
        ({"queued": (placed("r1", "queued", ago=420),)}, "runs.backlog", "warning", "waits for 7 min"),
        (
            {"queued": (placed("r1", "queued", queue="bulk"), placed("r2", "queued", queue="bulk"))},
            "queues.unread", "problem", "queue 'bulk' has 0 messages and at least 2 queued runs",
        ),
        (
            {"parked": tuple(placed(f"r{n}", "parked", missing={"tool": ("fly",)}) for n in range(5))},
            "runs.parked", "warning", "5 runs (r0, r1, r2 and 2 more) parked: no live worker has all",
        ),
        (
            {"waiting": (placed("r1", "paused", ago=200_000, interrupts=(approval(),)),)},
            "runs.undecided", "warning", "1 approval; longest 2 d",
        ),
        ({"failed": (placed("r1", "failed", error="WorkerLost: 5 workers"),)}, "runs.dead", "warning", "1 run (r1)"),
    ],
)  # fmt: skip
def test_how_runs_stand(stands: Mapping[str, Any], check: str, severity: str, said: str) -> None:
    """Nobody looked after them, nobody can run them, nobody decides."""
    finding = only(facts(stands=survey(**stands)))
    assert (finding.check, finding.severity) == (check, severity)
    assert said in finding.seen


@pytest.mark.parametrize(
    "stands",
    [
        {"queued": (placed("eta", "queued", ago=9_000, eta_ms=NOW + 60_000, queue="elsewhere"),)},
        {"queued": (placed("in its thread's line", "queued", ago=9_000, thread_id="t", offers=0),)},
        {"waiting": (placed("asked today", "paused", ago=3_600, interrupts=(approval(),)),)},
        {"failed": (placed("by itself", "failed", error="ValueError: no"),)},
    ],
)
def test_what_waits_as_it_should_is_no_finding(stands: Mapping[str, Any]) -> None:
    """For its time, for its thread, for a person since today; a failure of its own."""
    assert troubles(facts(stands=survey(**stands))) == []


def test_more_overdue_runs_than_are_listed_are_counted() -> None:
    """The list is bounded and the count is not."""
    found = troubles(facts(stands=survey(overdue=(placed("r1", "queued", ago=99),), overdue_count=700)))
    assert "699 more runs" in found[-1].seen


def test_no_finding_shows_what_a_run_is_about() -> None:
    """Arguments of calls that wait are a user's own."""
    stands = survey(waiting=(placed("r1", "paused", ago=200_000, interrupts=(approval(),)),))
    assert not any("a secret" in finding.seen + finding.advice for finding in judge(facts(stands=stands)))


def test_without_a_look_into_the_broker_that_is_said() -> None:
    """A queue that may not be declared passively."""
    given = facts(broker=BrokerFacts(same=False, transport="amqp", depths={"turnfleet.test": None}))
    finding = only(given)
    assert (finding.check, finding.severity) == ("broker.queues", "unknown")
    assert finding.advice == "allow this user to declare queues passively"
    on_redis = only(facts(broker=BrokerFacts(same=True, transport="redis", depths={"turnfleet.test": None})))
    assert "turnfleet acl --queue NAME" in on_redis.advice


def test_of_messages_that_could_not_be_counted_no_number_is_said() -> None:
    """What may not be looked into is not empty."""
    stands = survey(queued=(placed("r1", "queued", queue="bulk"),))
    given = facts(stands=stands, broker=BrokerFacts(same=True, transport="redis", depths={"bulk": None}))
    (unread,) = [each for each in judge(given) if each.check == "queues.unread"]
    assert unread.seen == "queue 'bulk' has at least 1 queued run, and no live worker reads it"


def test_numbers_are_written_for_people() -> None:
    """One unit, few digits."""
    assert [span(each) for each in (0.25, 3, 119, 120, 7_200, 200_000)] == [
        "0.2 s", "3 s", "119 s", "2 min", "2 h", "2 d",
    ]  # fmt: skip
    assert [size(each) for each in (5, 2_048, 3_500_000, 9e9)] == ["5 bytes", "2 KB", "3 MB", "8.4 GB"]
    assert some(["a", "b", "a"]) == "a, b"
