"""A fleet's Celery app: its configuration, its one task, and the parts that the worker process is made of."""

from collections.abc import Callable, Mapping
from typing import Any

from celery import Celery

from turnfleet.wire.broker import celery_settings
from turnfleet_worker.pool.ports import Host
from turnfleet_worker.settings import WorkerSettings
from turnfleet_worker.task import InvokeTask

__all__ = ["FleetApp", "build"]


class FleetApp(Celery):
    """A Celery app that knows which fleet it serves and how to make the host of a worker process."""

    log_cls = "turnfleet_worker.logs:FleetLogging"

    fleet: str
    worker_settings: WorkerSettings
    host_factory: Callable[[Celery], Host]


def build(
    host_factory: Callable[[Celery], Host],
    *,
    fleet: str,
    broker_url: str,
    settings: WorkerSettings,
    key_prefix: str = "",
) -> Celery:
    """Return the app that `celery -A module worker` runs; nothing is connected and no host is made before that.

    `host_factory` is called once in each worker process, in the thread of the consumer; the host is then started
    on the pool's loop. Raises `InvalidId` for a fleet name that queue names cannot carry.
    """
    app = FleetApp(f"turnfleet.{fleet}", set_as_current=False)
    app.fleet = fleet
    app.worker_settings = settings
    app.host_factory = host_factory
    app.conf.update(_settings(celery_settings(fleet, broker_url, key_prefix), fleet, settings))
    app.steps["worker"].add("turnfleet_worker.pool.step:FleetStep")
    app.steps["consumer"].add("turnfleet_worker.pool.revoking:RevokeStep")
    app.register_task(InvokeTask())
    return app


def _settings(of_both: Mapping[str, Any], fleet: str, settings: WorkerSettings) -> Mapping[str, Any]:
    shared = dict(of_both)
    transport_options = dict(shared.get("broker_transport_options", {}))
    redis = "priority_steps" in transport_options
    if redis:
        transport_options |= _redis_options(fleet, settings)
    shared["broker_transport_options"] = transport_options
    return shared | {
        "worker_pool": "turnfleet_worker.pool:TaskPool",
        "worker_consumer": "turnfleet_worker.pool.consumer:FleetConsumer",
        "worker_send_task_events": True,
        "worker_prefetch_multiplier": 1,
        # A run can take minutes: a message that waits in a busy process would wait that long while another process
        # stands idle. With this, Celery asks Redis for a message only when a slot is free (its check is the number
        # of requests it holds against `num_processes`, so growing and shrinking are followed). Other brokers do not
        # have it and warn; there the multiplier above bounds what a process holds to twice its concurrency.
        "worker_disable_prefetch": redis,
        # After a reconnect Celery lowers the prefetch count and raises it with each late acknowledgement. Ours come
        # right after the claim, so there is nothing to make room for.
        "worker_enable_prefetch_count_reduction": False,
        "broker_connection_retry_on_startup": True,
        # A broker that is away for an hour is an outage, not a reason for every worker to end.
        "broker_connection_max_retries": None,
    }


def _redis_options(fleet: str, settings: WorkerSettings) -> dict[str, Any]:
    """Return what makes kombu give back, soon, the messages of a worker that died between its pop and its claim."""
    unacked = f"turnfleet.{fleet}.unacked"
    return {
        # Keys of the fleet's own: the defaults are shared by every Celery app on the database, and one fleet's
        # worker would restore another's messages by its own timeout.
        "unacked_key": unacked,
        "unacked_index_key": f"{unacked}_index",
        "unacked_mutex_key": f"{unacked}_mutex",
        "unacked_mutex_expire": 5,
        "unacked_restore_interval": 1,
        "unacked_restore_throttle": 1,
        "visibility_timeout": settings.visibility_seconds,
        "socket_keepalive": True,
        # Without them a command to a host that vanished waits for the kernel, a quarter of an hour and more.
        "socket_timeout": 15.0,
        "socket_connect_timeout": 5.0,
    }
