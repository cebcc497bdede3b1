"""turnfleet's worker wing: run a fleet.

from turnfleet_worker import Registry, create_app

registry = Registry()
app = create_app(registry, "redis://localhost:6379/0")   # celery -A myfleet worker -c 200
"""

import turnfleet_worker.extra  # noqa: F401 - it is imported for what it checks
from turnfleet_kernel import Answer, Approve, Edit, Reject, Retry
from turnfleet_worker.bootstrap import create_app
from turnfleet_worker.registry import Registry
from turnfleet_worker.settings import WorkerSettings
from turnfleet_worker.toolcontext import ToolContext

__all__ = [
    "Answer",
    "Approve",
    "Edit",
    "Registry",
    "Reject",
    "Retry",
    "ToolContext",
    "WorkerSettings",
    "create_app",
]
