"""What both wings tell Celery about the broker: queue names, exchanges, priorities, JSON only.

The producer publishes with these settings and the worker consumes with them, so they stand in one place.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from turnfleet.store.keys import validate_id
from turnfleet.wire.broker_url import HiddenUrl, broker_place

TASK_NAME: Final = "turnfleet.invoke"
"""The one Celery task of a fleet; its keyword argument `envelope` is the wire form of a run."""

DEFAULT_PRIORITY: Final = 5
HIGHEST_PRIORITY: Final = 9


def default_queue(fleet: str) -> str:
    """Return the queue that a fleet's runs go to when no other was asked for."""
    return f"turnfleet.{fleet}"


def transport_priority(priority: int, driver_type: str) -> int:
    """Map a run's priority (0-9, 9 first) to the transport's: kombu's Redis serves 0 first, AMQP the highest."""
    return HIGHEST_PRIORITY - priority if driver_type == "redis" else priority


def celery_settings(fleet: str, broker_url: str, key_prefix: str = "") -> Mapping[str, Any]:
    """Return the Celery settings that the producer and the worker of one fleet must share (DESIGN section 7).

    Names carry the fleet, so that two fleets on one broker see nothing of each other; on a Redis, every key and
    channel begins with `key_prefix`. Of a URL as the store takes it (`turnfleet.store.place`) the broker is told in
    kombu's words. Raises `InvalidId`, and ValueError for such a URL that makes no sense, and for a cluster's.
    """
    validate_id("fleet name", fleet)
    validate_id("key prefix", key_prefix)
    queue = default_queue(fleet)
    place = broker_place(broker_url)
    settings: dict[str, Any] = {
        "broker_url": HiddenUrl(place.url),
        "task_serializer": "json",
        "result_serializer": "json",
        "event_serializer": "json",
        "accept_content": ["json"],
        "task_protocol": 2,
        "task_ignore_result": True,
        "result_backend": None,
        "task_default_queue": queue,
        "task_default_exchange": queue,
        "task_default_routing_key": queue,
        "control_exchange": f"{queue}.control",
        "event_exchange": f"{queue}.events",
        "event_queue_prefix": f"{queue}.event",
        "task_send_sent_event": True,
        "enable_utc": True,
    }
    if place.tls is not None:
        settings["broker_use_ssl"] = dict(place.tls)
    if place.redis:
        # Without a default, a message that names no priority would overtake all others: 0 is first there.
        settings["task_default_priority"] = transport_priority(DEFAULT_PRIORITY, "redis")
        # Every level has a list of its own; "priority" makes the consumer drain them in order.
        settings["broker_transport_options"] = {
            "priority_steps": list(range(HIGHEST_PRIORITY + 1)),
            "queue_order_strategy": "priority",
            # Only a worker's own consumer notes what it holds, and puts back what others left (pool/transport.py). Who
            # waits for an answer (Flower, a ping) would do that as well, for every Celery app on the database.
            "ack_emulation": False,
            **({"global_keyprefix": key_prefix} if key_prefix else {}),
            **place.options,
        }
    elif place.amqp:
        settings["task_default_priority"] = DEFAULT_PRIORITY
        # Queues are declared with it by whoever comes first, so both wings must say the same.
        settings["task_queue_max_priority"] = HIGHEST_PRIORITY + 1
        settings["broker_transport_options"] = {"confirm_publish": True}
    return MappingProxyType(settings)
