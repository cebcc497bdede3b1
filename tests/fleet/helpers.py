"""Raw access for the fleet's tests: messages on the broker, put there as any Celery client in any language would."""

import base64
import json
import uuid
from collections.abc import Sequence
from typing import Any

import redis

from turnfleet import KernelEvent
from turnfleet_kernel.contracts.events import TERMINAL_KINDS


def celery_message(
    task_id: str, kwargs: dict[str, Any], *, queue: str, root_id: str | None = None, body: bytes | None = None
) -> dict[str, Any]:
    """Spell out a message of Celery's protocol 2 in kombu's Redis envelope, with nothing but json and base64."""
    content = body if body is not None else json.dumps([[], kwargs, {}]).encode()
    return {
        "body": base64.b64encode(content).decode(),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {
            "lang": "any",
            "task": "turnfleet.invoke",
            "id": task_id,
            "root_id": root_id or task_id,
            "parent_id": None,
            "group": None,
            "retries": 0,
            "timelimit": [None, None],
            "argsrepr": "()",
            "kwargsrepr": "{}",
            "origin": "a foreign client",
        },
        "properties": {
            "correlation_id": task_id,
            "delivery_mode": 2,
            "delivery_info": {"exchange": "", "routing_key": queue},
            "priority": 4,
            "body_encoding": "base64",
            "delivery_tag": str(uuid.uuid4()),
        },
    }


def push(client: redis.Redis, queue: str, message: dict[str, Any] | bytes) -> None:
    """Put a message on the broker."""
    client.lpush(queue, message if isinstance(message, bytes) else json.dumps(message))


def check_stream(events: Sequence[KernelEvent]) -> None:
    """Assert what every whole event stream of an ended run promises (EVT-2, EVT-4)."""
    assert [event.index for event in events] == list(range(len(events)))
    assert [event.kind in TERMINAL_KINDS for event in events] == [False] * (len(events) - 1) + [True]


def outline(events: Sequence[KernelEvent]) -> list[str]:
    """Give the kinds of events in order, neighbouring text deltas as one, stages left out."""
    kinds: list[str] = []
    for event in events:
        if event.kind == "stage" or (event.kind == "text_delta" and kinds[-1:] == ["text_delta"]):
            continue
        kinds.append(event.kind)
    return kinds
