"""JSON Schemas of what readers and writers in any language meet: plans, events, outcomes, decisions.

`envelope_schema` stands with the envelope. Events and outcomes are written by hand in `contracts.json`, for speed, and
so are their schemas here; tests hold each against what is really written.
"""

from typing import Any, Final

from turnfleet_kernel.contracts.events import PAUSE_KINDS
from turnfleet_kernel.contracts.interrupts import DECISIONS
from turnfleet_kernel.contracts.json import usage_to_json
from turnfleet_kernel.contracts.spec import PlanSpec
from turnfleet_kernel.contracts.values import UsageDelta

__all__ = ["decision_schema", "event_schema", "outcome_schema", "plan_schema"]

Schema = dict[str, Any]

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_TEXT: Final[Schema] = {"type": "string"}
_NUMBER: Final[Schema] = {"type": "number"}
_COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
_ANYTHING: Final[Schema] = {}
_MAYBE_TEXT: Final[Schema] = {"type": ["string", "null"]}


def _object(properties: dict[str, Schema], *, optional: tuple[str, ...] = (), description: str = "") -> Schema:
    """Describe an object; a newer sender may add properties, so that others are not refused."""
    written: Schema = {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
    }
    return {"description": description, **written} if description else written


def _usage() -> Schema:
    figures = usage_to_json(UsageDelta(1, 1, 1, 1, 1, 1))
    return _object(
        dict.fromkeys(figures, _COUNT), optional=tuple(figures), description="What was used; a zero is left out."
    )


def _tool_outcome() -> Schema:
    return _object(
        {
            "call_id": _TEXT,
            "name": _TEXT,
            "value": _ANYTHING,
            "error": _MAYBE_TEXT,
            "duration_ms": _NUMBER,
            "usage": {"$ref": "#/$defs/usage"},
        },
        optional=("usage",),
        description="How a tool call ended: its value, or the error that the model is told.",
    )


def _interrupt() -> Schema:
    return _object(
        {
            "id": _TEXT,
            "kind": {"enum": sorted(PAUSE_KINDS)},
            "payload": {
                "type": "object",
                "description": "Of a question: question, schema. Of the others: tool, arguments, digest.",
            },
            "call_id": _MAYBE_TEXT,
        },
        description="One thing that a run waits for.",
    )


def _outcome() -> Schema:
    return _object(
        {
            "text": _TEXT,
            "output": _ANYTHING,
            "messages": {"type": "array"},
            "tool_outcomes": {"type": "array", "items": {"$ref": "#/$defs/tool_outcome"}},
            "usage": {"$ref": "#/$defs/usage"},
            "run_id": _TEXT,
            "duration_ms": _NUMBER,
            "stop_reason": _MAYBE_TEXT,
        },
        description="What a completed run gave.",
    )


def _trace() -> Schema:
    outcomes = {"enum": ["ok", "failed", "paused", "cancelled"]}
    return _object({"stage_id": _TEXT, "phase": _TEXT, "outcome": outcomes, "duration_ms": _NUMBER})


_PAUSE: Final[dict[str, Schema]] = {
    "interrupt": {"$ref": "#/$defs/interrupt"},
    "interrupts": {"type": "array", "items": {"$ref": "#/$defs/interrupt"}, "minItems": 1},
}
_PAYLOADS: Final[dict[str, dict[str, Schema]]] = {
    "stage": {"trace": {"$ref": "#/$defs/trace"}},
    "text_delta": {"text": _TEXT},
    "reasoning_delta": {"text": _TEXT},
    "tool_call_delta": {"text": _TEXT},
    "tool_call": {"call_id": _TEXT, "name": _TEXT, "arguments": _ANYTHING},
    "tool_result": {"call_id": _TEXT, "name": _TEXT, "outcome": {"$ref": "#/$defs/tool_outcome"}},
    "progress": {"call_id": _TEXT, "value": _ANYTHING},
    "child": {"parent_run_id": _TEXT, "event": {"$ref": "#/$defs/event"}},
    "usage": {"usage": {"$ref": "#/$defs/usage"}, "total": {"$ref": "#/$defs/usage"}, "round": _COUNT},
    **dict.fromkeys(sorted(PAUSE_KINDS), _PAUSE),
    "done": {"outcome": {"$ref": "#/$defs/outcome"}},
    "error": {"error": _TEXT},
    "cancelled": {"reason": _TEXT},
    "expired": {"reason": _TEXT},
    "resumed": {"attempt": _COUNT},
    "rewind": {"to_index": _COUNT},
}


def event_schema() -> Schema:
    """Return the JSON Schema of one event, as in the channel, the log and `event_to_json`."""
    common = {"run_id": _TEXT, "index": _COUNT}
    kinds = [
        _object(
            {**common, "kind": {"const": kind}, "time": {"type": "number", "description": "Unix seconds."}, **payload}
        )
        for kind, payload in _PAYLOADS.items()
    ]
    definitions = {
        "event": {"oneOf": kinds},
        "interrupt": _interrupt(),
        "outcome": _outcome(),
        "tool_outcome": _tool_outcome(),
        "trace": _trace(),
        "usage": _usage(),
    }
    return {"$schema": _DIALECT, "title": "Event", "$ref": "#/$defs/event", "$defs": definitions}


def outcome_schema() -> Schema:
    """Return the JSON Schema of the outcome of a completed run."""
    definitions = {"tool_outcome": _tool_outcome(), "usage": _usage()}
    return {"$schema": _DIALECT, "title": "InvocationOutcome", **_outcome(), "$defs": definitions}


def decision_schema() -> Schema:
    """Return the JSON Schema of a decision, told apart by `kind`."""
    schema = {"$schema": _DIALECT, "title": "Decision", **DECISIONS.json_schema()}
    for decision in schema["$defs"].values():
        # In Python the type says it; on the wire nothing else does.
        decision["required"] = [*decision.get("required", ()), "kind"]
    return schema


def plan_schema() -> Schema:
    """Return the JSON Schema of a plan, as `turnfleet enqueue` reads it from a file."""
    return {"$schema": _DIALECT, **PlanSpec.model_json_schema()}
