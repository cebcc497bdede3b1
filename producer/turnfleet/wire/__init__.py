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
from turnfleet.wire.schemas import decision_schema, event_schema, outcome_schema, plan_schema
from turnfleet.wire.signed import check_envelope, sign_envelope
from turnfleet.wire.signing import SigningKeys

__all__ = [
    "TASK_NAME",
    "Envelope",
    "Publisher",
    "RequestBody",
    "RunOptions",
    "SigningKeys",
    "SizeLimits",
    "celery_settings",
    "check_envelope",
    "decision_schema",
    "default_queue",
    "envelope_schema",
    "event_schema",
    "first_offer",
    "new_run",
    "outcome_schema",
    "parse_envelope",
    "plan_schema",
    "reoffer",
    "request_digest",
    "sign_envelope",
    "task_id",
]
