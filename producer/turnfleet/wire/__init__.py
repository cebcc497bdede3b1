"""What travels between producer and worker: the envelope, its limits, and how it is published through Celery."""

from turnfleet.wire.broker import TASK_NAME, celery_settings, default_queue
from turnfleet.wire.envelope import (
    Envelope,
    RunOptions,
    envelope_schema,
    first_offer,
    new_run,
    parse_envelope,
    reoffer,
)
from turnfleet.wire.limits import SizeLimits
from turnfleet.wire.publish import Publisher, task_id
from turnfleet.wire.request import RequestBody, request_digest

__all__ = [
    "TASK_NAME",
    "Envelope",
    "Publisher",
    "RequestBody",
    "RunOptions",
    "SizeLimits",
    "celery_settings",
    "default_queue",
    "envelope_schema",
    "first_offer",
    "new_run",
    "parse_envelope",
    "reoffer",
    "request_digest",
    "task_id",
]
