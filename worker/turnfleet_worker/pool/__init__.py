"""The asyncio pool for Celery: it knows Celery and asyncio, and nothing about runs."""

from turnfleet_worker.pool.ports import Delivery, Host
from turnfleet_worker.pool.taskpool import TaskPool

__all__ = ["Delivery", "Host", "TaskPool"]
