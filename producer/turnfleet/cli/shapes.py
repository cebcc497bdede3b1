"""A run's status and what it asks, as JSON and as a line: the same wherever a command prints them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from turnfleet.cli.printing import arguments_line, one_line, thawed
from turnfleet.interrupt import RunInterrupt
from turnfleet.status import RunStatus
from turnfleet_kernel.contracts.json import usage_to_json

STATUS_SHAPE: Final[Mapping[str, str]] = {
    "run_id": "the run's id",
    "state": "queued, parked, running, paused, completed, failed, cancelled or expired",
    "plan_id": "the SHA-256 of its plan",
    "plan_name": "its plan's name",
    "queue": "the broker's queue",
    "priority": "0 to 9, 9 first",
    "thread_id": "its thread, or null",
    "tenant": "its tenant, or null",
    "metadata": "its labels",
    "attempts": "claims by workers so far",
    "worker": "who claimed it last, or null",
    "created_at": "times are ISO 8601 in UTC, or null",
    "started_at": "its first claim",
    "ended_at": "its end",
    "eta": "not before",
    "expires_at": "the end of its whole life",
    "running_seconds": "without queues and pauses",
    "interrupts": "what it asks: for each what turnfleet inbox --json prints",
    "usage": "tokens and requests, or null",
    "error": "why it failed, or null",
    "cancel_reason": "why it was cancelled, or null",
    "missing": "what a parked run waits for: names by kind",
    "next_index": "the index of its next event",
}
INTERRUPT_SHAPE: Final = (
    "run_id", "id", "kind", "tool", "arguments", "question", "schema", "digest", "roles", "expires_at",
)  # fmt: skip


def status_json(run: RunStatus) -> dict[str, Any]:
    """Return a status as JSON, times as ISO 8601."""
    return {
        "run_id": run.run_id,
        "state": run.state,
        "plan_id": run.plan_id,
        "plan_name": run.plan_name,
        "queue": run.queue,
        "priority": run.priority,
        "thread_id": run.thread_id,
        "tenant": run.tenant,
        "metadata": thawed(run.metadata),
        "attempts": run.attempts,
        "worker": run.worker,
        "created_at": _iso(run.created_at),
        "started_at": _iso(run.started_at),
        "ended_at": _iso(run.ended_at),
        "eta": _iso(run.eta),
        "expires_at": _iso(run.expires_at),
        "running_seconds": run.running_seconds,
        "interrupts": [interrupt_json(each) for each in run.interrupts],
        "usage": None if run.usage is None else usage_to_json(run.usage),
        "error": run.error,
        "cancel_reason": run.cancel_reason,
        "missing": thawed(run.missing),
        "next_index": run.next_index,
    }


def interrupt_json(interrupt: RunInterrupt) -> dict[str, Any]:
    """Return an open interrupt as JSON."""
    return {
        "run_id": interrupt.run_id,
        "id": interrupt.id,
        "kind": interrupt.kind,
        "tool": interrupt.tool,
        "arguments": thawed(interrupt.arguments),
        "question": interrupt.question,
        "schema": thawed(interrupt.schema),
        "digest": interrupt.digest,
        "roles": list(interrupt.roles),
        "expires_at": _iso(interrupt.expires_at),
    }


def interrupt_line(interrupt: RunInterrupt) -> str:
    """Say on one line what is asked."""
    if interrupt.question is not None:
        return one_line(interrupt.question)
    return f"{interrupt.tool}  {arguments_line(interrupt.arguments or {})}".strip()


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
