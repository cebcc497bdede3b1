"""A run's status and what it asks, as JSON and as a line: the same wherever a command prints them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from turnfleet.cli.printing import arguments_line, one_line, short_value, thawed
from turnfleet.interrupt import RunInterrupt
from turnfleet.status import RunStatus
from turnfleet_kernel.contracts.interrupts import Answer, Approve, Decision, Edit, Reject
from turnfleet_kernel.contracts.json import decision_to_json, usage_to_json

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
    "losses": "workers lost in a row while they had it",
    "worker": "who claimed it last, or null",
    "created_at": "times are ISO 8601 in UTC, or null",
    "started_at": "its first claim",
    "changed_at": "when it came into its state",
    "ended_at": "its end",
    "eta": "not before",
    "expires_at": "the end of its whole life",
    "running_seconds": "without queues and pauses",
    "interrupts": "what it asks: for each what turnfleet inbox --json prints",
    "decided": "what was decided: the same, and decision, by, decided_at",
    "usage": "tokens and requests, or null",
    "error": "why it failed, or null",
    "cancel_reason": "why it was cancelled, or null",
    "missing": "what a parked run waits for: names by kind",
    "parked_because": "the same as a sentence, or null",
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
        "losses": run.losses,
        "worker": run.worker,
        "created_at": _iso(run.created_at),
        "started_at": _iso(run.started_at),
        "changed_at": _iso(run.changed_at),
        "ended_at": _iso(run.ended_at),
        "eta": _iso(run.eta),
        "expires_at": _iso(run.expires_at),
        "running_seconds": run.running_seconds,
        "interrupts": [interrupt_json(each) for each in run.interrupts],
        "decided": [_decided_json(each) for each in run.decided],
        "usage": None if run.usage is None else usage_to_json(run.usage),
        "error": run.error,
        "cancel_reason": run.cancel_reason,
        "missing": thawed(run.missing),
        "parked_because": run.parked_because,
        "next_index": run.next_index,
    }


def interrupt_json(interrupt: RunInterrupt) -> dict[str, Any]:
    """Return what is asked as JSON."""
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


def decision_line(interrupt: RunInterrupt) -> str:
    """Say on one line what was decided, by whom and when."""
    when = "" if interrupt.decided_at is None else f", {interrupt.decided_at:%Y-%m-%d %H:%M:%S} UTC"
    return f"{_verdict(interrupt.decision)} by {one_line(interrupt.by or 'nobody')}{when}"


def _decided_json(interrupt: RunInterrupt) -> dict[str, Any]:
    decision = None if interrupt.decision is None else decision_to_json(interrupt.decision)
    told = {"decision": decision, "by": interrupt.by, "decided_at": _iso(interrupt.decided_at)}
    return interrupt_json(interrupt) | told


def _verdict(decision: Decision | None) -> str:
    """Name a decision, with what else it says."""
    match decision:
        case None:
            return "undecided"
        case Reject(reason=reason) if reason:
            return f"reject ({one_line(reason)})"
        case Approve(value=value) if value is not None:
            return f"approve ({short_value(value)})"
        case Edit(arguments=arguments):
            return f"edit ({arguments_line(arguments)})"
        case Answer(value=value):
            return f"answer ({short_value(value)})"
        case _:
            return decision.kind


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
