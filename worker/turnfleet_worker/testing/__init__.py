"""The testing kit: a whole fleet in a test, with time that can be skipped and people who follow a script.

    with local_fleet(registry, models={"support": ScriptedModel([call("refund", amount=80.0), "done"])},
                     person=Person({"refund": Approve()}, roles=("finance",))) as fleet:
        assert fleet.enqueue(plan, "Refund order 1001").result().text == "done"

Needs `pip install 'turnfleet[testing]'`; raises ImportError that says so.
"""

from turnfleet_kernel.testing import ScriptedModel, call, calls
from turnfleet_worker.testing.fleets import AsyncLocalFleet, LocalFleet
from turnfleet_worker.testing.handles import AsyncLocalRun, LocalRun
from turnfleet_worker.testing.local import local_fleet
from turnfleet_worker.testing.person import Asked, Person
from turnfleet_worker.testing.tools import ToolFailure

__all__ = [
    "Asked",
    "AsyncLocalFleet",
    "AsyncLocalRun",
    "LocalFleet",
    "LocalRun",
    "Person",
    "ScriptedModel",
    "ToolFailure",
    "call",
    "calls",
    "local_fleet",
]
