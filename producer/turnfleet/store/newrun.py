"""A new run as script arguments: shared by the producer's `create` and by the first claim of a foreign message."""

from collections.abc import Mapping
from typing import Any

from turnfleet.store.command import Argument, arg, args, dump
from turnfleet.store.keys import validate_id
from turnfleet.store.records import NewRun


def new_run_arguments(new: NewRun) -> tuple[Argument, ...]:
    """Return the arguments. Raises `InvalidId` for a run id, thread id or tenant that keys cannot carry."""
    validate_id("run id", new.run_id)
    if new.thread_id is not None:
        validate_id("thread id", new.thread_id)
    if new.tenant is not None:
        validate_id("tenant", new.tenant)
    fields: Mapping[str, Any] = {
        "plan": dump(new.plan),
        "plan_id": new.plan_id,
        "plan_name": str(new.plan.get("name", "")),
        "request": dump(new.request),
        "digest": new.digest,
        "queue": new.queue,
        "priority": new.priority,
        "thread": new.thread_id,
        "tenant": new.tenant,
        "eta": new.eta_ms,
        "expires": new.expires_ms,
        "deadline": new.deadline_seconds,
        "metadata": dump(new.metadata) if new.metadata else None,
        "held": "1" if new.held else None,
        "kid": new.kid,
        "sig": new.sig,
        "foreign": "1" if new.sig and not new.recorded else None,
        "trace": new.trace,
    }
    flat = [part for name, value in fields.items() if value is not None for part in (name.encode(), arg(value))]
    return args(new.run_id, new.digest, new.tenant, new.eta_ms, new.expires_ms, new.held, flat)
