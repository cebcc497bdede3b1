"""From facts to findings, in the order in which they are shown."""

from turnfleet.doctor import broker_rules, redis_rules, run_rules, worker_rules
from turnfleet.doctor.facts import Facts
from turnfleet.doctor.findings import Finding


def judge(facts: Facts) -> tuple[Finding, ...]:
    """Return what is to be said of a fleet. Of a server that does not answer that alone is said."""
    findings: list[Finding] = []
    for server in facts.servers:
        findings += redis_rules.judge(server, many=len(facts.servers) > 1)
    findings += broker_rules.judge(facts)
    findings += worker_rules.judge(facts)
    findings += run_rules.judge(facts)
    return tuple(findings)
