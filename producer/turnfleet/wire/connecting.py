"""Connections to the broker that never hang, of an app that is never the caller's own."""

from typing import TYPE_CHECKING, Any

from turnfleet.wire.broker import celery_settings

if TYPE_CHECKING:
    from celery import Celery
    from kombu import Connection


def producer_app(broker_url: str, fleet: str, key_prefix: str = "") -> "Celery":
    """Return the Celery app that a client talks to a fleet's broker with. Raises `InvalidId`."""
    from celery import Celery  # noqa: PLC0415 - a service that only listens never loads it, one that enqueues when it does

    # Never the current app: the service that imports us may have a Celery app of its own.
    app = Celery("turnfleet", set_as_current=False, fixups=[])
    # Given as an object, the settings of the service's own Celery (its environment and module) stay out.
    app.config_from_object(dict[str, Any](celery_settings(fleet, broker_url, key_prefix)))
    return app


def bounded(connection: "Connection", timeout: float) -> "Connection":
    """Bound each wait of a connection that is not open yet: by `timeout` seconds, and by one try."""
    # kombu would otherwise go on connecting for ever.
    bounds: dict[str, Any] = {"max_retries": 0, "interval_start": 0, "interval_step": 0, "interval_max": 0}
    driver_type = connection.transport.driver_type
    if driver_type == "redis":
        bounds |= {"socket_timeout": timeout, "socket_connect_timeout": timeout}
    elif driver_type == "amqp":
        bounds |= {"read_timeout": timeout, "write_timeout": timeout}
    connection.transport_options = {**(connection.transport_options or {}), **bounds}
    return connection
