"""A diagnosis of a fleet: facts are gathered (`look`), judged (`judge`, pure), and told as findings."""

from turnfleet.doctor.facts import BrokerFacts, Facts, FleetFacts, ServerFacts
from turnfleet.doctor.findings import Finding, Severity, worst
from turnfleet.doctor.judge import judge
from turnfleet.doctor.look import gather

__all__ = ["BrokerFacts", "Facts", "Finding", "FleetFacts", "ServerFacts", "Severity", "gather", "judge", "worst"]
