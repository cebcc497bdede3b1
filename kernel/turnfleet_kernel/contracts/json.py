"""Events and values as plain JSON, and back. Events are the hot ones: their dicts are built by hand.

An event is flat: ``{"run_id", "index", "kind", "time", ...payload}`` with ``time`` in Unix seconds. What a newer
sender adds is kept in the payload.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, TypeAlias, cast

from pydantic import ValidationError
from pydantic_core import to_jsonable_python

from turnfleet_kernel.contracts.events import PAUSE_KINDS, EventKind, KernelEvent
from turnfleet_kernel.contracts.interrupts import DECISIONS, INTERRUPT, Decision, Interrupt
from turnfleet_kernel.contracts.plain import plain_json
from turnfleet_kernel.contracts.stages import StageTrace
from turnfleet_kernel.contracts.values import (
    Delta,
    InvocationOutcome,
    ModelTurn,
    ToolOutcome,
    ToolRequest,
    UsageDelta,
)

__all__ = [
    "decision_from_json",
    "decision_to_json",
    "event_from_json",
    "event_to_json",
    "interrupt_from_json",
    "interrupt_to_json",
    "outcome_from_json",
    "outcome_to_json",
    "tool_outcome_from_json",
    "tool_outcome_to_json",
    "tool_request_from_json",
    "tool_request_to_json",
    "turn_from_json",
    "turn_to_json",
    "usage_from_json",
    "usage_to_json",
]

Json: TypeAlias = dict[str, Any]


def _value(value: Any) -> Any:
    """Give a value's JSON; what JSON does not know is written as its text."""
    if value is None or isinstance(value, str | bool | int):
        return value
    return to_jsonable_python(value, fallback=str, inf_nan_mode="null")


def usage_to_json(usage: UsageDelta) -> Json:
    """Write the fields that are not zero."""
    figures = {name: getattr(usage, name) for name in UsageDelta.__dataclass_fields__}
    return {name: figure for name, figure in figures.items() if figure}


def usage_from_json(value: Mapping[str, Any]) -> UsageDelta:
    """Read what is known; figures of a newer sender are left out."""
    return UsageDelta(**{name: value[name] for name in UsageDelta.__dataclass_fields__ if name in value})


def tool_request_to_json(request: ToolRequest) -> Json:
    """Write a request."""
    return {"call_id": request.call_id, "name": request.name, "arguments": _value(request.arguments)}


def tool_request_from_json(value: Mapping[str, Any]) -> ToolRequest:
    """Read a request."""
    return ToolRequest(value["call_id"], value["name"], value["arguments"])


def tool_outcome_to_json(outcome: ToolOutcome) -> Json:
    """Write an outcome; ``usage`` only where the call used something."""
    written = {
        "call_id": outcome.call_id,
        "name": outcome.name,
        "value": _value(outcome.value),
        "error": outcome.error,
        "duration_ms": outcome.duration_ms,
    }
    if outcome.usage:
        written["usage"] = usage_to_json(outcome.usage)
    return written


def tool_outcome_from_json(value: Mapping[str, Any]) -> ToolOutcome:
    """Read an outcome."""
    return ToolOutcome(
        value["call_id"],
        value["name"],
        value.get("value"),
        value.get("error"),
        value.get("duration_ms", 0.0),
        usage_from_json(value.get("usage", {})),
    )


def turn_to_json(turn: ModelTurn) -> Json:
    """Write a turn; ``shown`` only where it differs from the text, ``provider`` only where there is any.

    Raises:
        ValueError: ``provider`` does not survive JSON.
    """
    written: Json = {
        "text": turn.text,
        "usage": usage_to_json(turn.usage),
        "stop_reason": turn.stop_reason,
        "tool_requests": [tool_request_to_json(request) for request in turn.tool_requests],
    }
    if turn.shown is not None:
        written["shown"] = [{"kind": delta.kind, "text": delta.text} for delta in turn.shown]
    if turn.provider is not None:
        written["provider"] = plain_json(turn.provider, "what the provider keeps with the turn")
    return written


def turn_from_json(value: Mapping[str, Any]) -> ModelTurn:
    """Read a turn."""
    shown = value.get("shown")
    return ModelTurn(
        value["text"],
        usage_from_json(value.get("usage", {})),
        value.get("stop_reason"),
        tuple(tool_request_from_json(request) for request in value.get("tool_requests", ())),
        None if shown is None else tuple(Delta(delta["kind"], delta["text"]) for delta in shown),
        value.get("provider"),
    )


def interrupt_to_json(interrupt: Interrupt) -> Json:
    """Write an interrupt."""
    return {
        "id": interrupt.id,
        "kind": interrupt.kind,
        "payload": _value(interrupt.payload),
        "call_id": interrupt.call_id,
    }


def interrupt_from_json(value: Mapping[str, Any]) -> Interrupt:
    """Read an interrupt. Raises pydantic.ValidationError if it is none."""
    return INTERRUPT.validate_python(value)


def decision_to_json(decision: Decision) -> Json:
    """Write a decision, told apart by ``kind``.

    Raises:
        ValueError: its content does not survive JSON (NaN, a date), or could not be read again (a reason that is no
            text): what a person decided is kept as it is or refused.
    """
    fields = {field.name: getattr(decision, field.name) for field in dataclasses.fields(decision)}
    written = cast("Json", plain_json(fields, f"the decision {decision.kind!r}"))
    try:
        decision_from_json(written)
    except ValidationError as unfit:
        problems = "; ".join(f"{error['loc'][-1]}: {error['msg']}" for error in unfit.errors(include_input=False))
        msg = f"the decision {decision.kind!r} is none: {problems}"
        raise ValueError(msg) from None
    return written


def decision_from_json(value: Mapping[str, Any]) -> Decision:
    """Read a decision. Raises pydantic.ValidationError if it is none, unknown keys included."""
    return DECISIONS.validate_python(value)


def outcome_to_json(outcome: InvocationOutcome[Any]) -> Json:
    """Write the outcome of a run."""
    return {
        "text": outcome.text,
        "output": _value(outcome.output),
        "messages": _value(outcome.messages),
        "tool_outcomes": [tool_outcome_to_json(each) for each in outcome.tool_outcomes],
        "usage": usage_to_json(outcome.usage),
        "run_id": outcome.run_id,
        "duration_ms": outcome.duration_ms,
        "stop_reason": outcome.stop_reason,
    }


def outcome_from_json(value: Mapping[str, Any]) -> InvocationOutcome[Any]:
    """Read the outcome of a run; ``output`` is plain JSON."""
    return InvocationOutcome(
        value["text"],
        value.get("output"),
        tuple(value.get("messages", ())),
        tuple(tool_outcome_from_json(each) for each in value.get("tool_outcomes", ())),
        usage_from_json(value.get("usage", {})),
        value["run_id"],
        value.get("duration_ms", 0.0),
        value.get("stop_reason"),
    )


def _trace_to_json(trace: StageTrace) -> Json:
    return {
        "stage_id": trace.stage_id,
        "phase": str(trace.phase),
        "outcome": trace.outcome,
        "duration_ms": trace.duration_ms,
    }


def _trace_from_json(value: Mapping[str, Any]) -> StageTrace:
    return StageTrace(value["stage_id"], value["phase"], value["outcome"], value.get("duration_ms", 0.0))


def _interrupts_to_json(interrupts: tuple[Interrupt, ...]) -> list[Json]:
    return [interrupt_to_json(interrupt) for interrupt in interrupts]


def _interrupts_from_json(value: list[Json]) -> tuple[Interrupt, ...]:
    return tuple(interrupt_from_json(interrupt) for interrupt in value)


_Codec: TypeAlias = tuple[Callable[[Any], Any], Callable[[Any], Any]]

_USAGE: _Codec = (usage_to_json, usage_from_json)
_PAUSE: dict[str, _Codec] = {
    "interrupt": (interrupt_to_json, interrupt_from_json),
    "interrupts": (_interrupts_to_json, _interrupts_from_json),
}


def event_to_json(event: KernelEvent) -> Json:
    """Write an event flat (EVT-1)."""
    written: Json = {
        "run_id": event.run_id,
        "index": event.index,
        "kind": event.kind,
        "time": event.time.timestamp(),
    }
    codecs = _CODECS.get(event.kind)
    for name, item in event.payload.items():
        if name in written:
            continue  # the id of a child's run: its nested event says it
        codec = codecs.get(name) if codecs else None
        written[name] = codec[0](item) if codec else _value(item)
    return written


def event_from_json(value: Mapping[str, Any]) -> KernelEvent:
    """Read an event; what its kind does not know is kept as plain JSON.

    Raises:
        KeyError: a field that every event has is missing.
    """
    kind: EventKind = value["kind"]  # or one of a newer sender, which no type can name
    codecs = _CODECS.get(kind, {})
    payload = {
        name: codecs[name][1](item) if name in codecs else item for name, item in value.items() if name not in _ENVELOPE
    }
    if kind == "child":
        payload = {"run_id": payload["event"].run_id, **payload}
    time = datetime.fromtimestamp(value["time"], UTC)
    return KernelEvent(value["run_id"], value["index"], kind, time, MappingProxyType(payload))


_ENVELOPE = frozenset({"run_id", "index", "kind", "time"})

_CODECS: dict[str, dict[str, _Codec]] = {
    "stage": {"trace": (_trace_to_json, _trace_from_json)},
    "tool_result": {"outcome": (tool_outcome_to_json, tool_outcome_from_json)},
    "usage": {"usage": _USAGE, "total": _USAGE},
    "done": {"outcome": (outcome_to_json, outcome_from_json)},
    "child": {"event": (event_to_json, event_from_json)},
    **dict.fromkeys(PAUSE_KINDS, _PAUSE),
}
