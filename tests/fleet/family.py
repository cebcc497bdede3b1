"""The planned fleet with a helper to delegate to; the helper does what its prompt spells out, too."""

from fleet.planned import LEASE, NAME, URL, registry

from turnfleet_kernel import PlanSpec
from turnfleet_worker import WorkerSettings, create_app

registry.delegate("helper", PlanSpec(name="helper", model="planned", tools=("note", "wait_for", "refund")))
app = create_app(
    registry,
    URL,
    name=NAME,
    settings=WorkerSettings(
        lease_seconds=LEASE, heartbeat_seconds=0.4, sweep_seconds=0.4, reoffer_after_seconds=4, drain_seconds=5
    ),
)
