"""`ask`: the built-in tool with which a model puts a question to a person."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any
from urllib.parse import unquote

from pydantic import Field

from turnfleet_kernel.contracts.interrupts import Interrupt, InvocationPaused
from turnfleet_worker.toolcontext import ToolContext

__all__ = ["ASK", "DESCRIPTION", "make_ask", "unusable_schema"]

ASK = "ask"
"""The name under which every registry knows the tool; a plan that lists it may use it."""

DESCRIPTION = "Ask a person a question and wait for the answer, which becomes this call's result."
"""Given as values, not as a docstring: models are told of it under `python -OO`, too."""

_SCHEMA = "JSON Schema that the answer must fit; leave it out for a free answer."
_REFERRING = ("$ref", "$dynamicRef", "$id")


def make_ask(roles: tuple[str, ...]) -> Any:
    """Make the tool's function; `roles` may answer."""

    async def ask(
        question: Annotated[str, Field(description="What to ask, with all that is needed to answer it.")],
        context: ToolContext,
        schema: Annotated[dict[str, Any] | None, Field(description=_SCHEMA)] = None,
    ) -> str:
        if schema is not None and (problem := unusable_schema(schema)):
            raise ValueError(f"the answer's schema cannot be used: {problem}. Call ask again with a corrected schema")
        payload = {"question": question, "schema": schema, "roles": list(roles), "expires_at": None}
        # The answer does not come back here: it is this call's recorded outcome when the run goes on (HK-4).
        raise InvocationPaused(Interrupt(f"question:{context.call_id}", "question", payload))

    return ask


def unusable_schema(schema: dict[str, Any]) -> str | None:
    """Say why no answer could be checked against a schema that a model wrote; None if it is fine."""
    # Loaded with the first question, not with the worker.
    from jsonschema import Draft202012Validator, SchemaError  # noqa: PLC0415
    from jsonschema.validators import validator_for  # noqa: PLC0415
    from referencing import Registry  # noqa: PLC0415
    from referencing.exceptions import Unresolvable  # noqa: PLC0415

    if problem := next((each for each in map(partial(_astray, schema), _references(schema)) if each), None):
        return problem
    kind = validator_for(schema, default=Draft202012Validator)
    try:
        kind.check_schema(schema)
        # A trial answer: a schema that refers to itself for ever is found now, not when a person has answered.
        kind(schema, registry=Registry()).is_valid(None)
    except SchemaError as invalid:
        where = "/".join(str(part) for part in invalid.path) or "its top"
        return f"it is no valid JSON Schema at {where}"
    except (Unresolvable, RecursionError):
        return "a $ref in it leads nowhere"
    return None


def _references(value: Any) -> list[tuple[str, str]]:
    """List what a schema refers to, as keyword and target."""
    if isinstance(value, Mapping):
        own = [(key, target) for key in _REFERRING if isinstance(target := value.get(key), str)]
        return own + [found for each in value.values() for found in _references(each)]
    if isinstance(value, list):
        return [found for each in value for found in _references(each)]
    return []


def _astray(schema: Mapping[str, Any], reference: tuple[str, str]) -> str | None:
    """Say what is wrong with a reference. One that leaves the schema would fetch an address that the model chose."""
    keyword, target = reference
    if keyword != "$ref" or not (target == "#" or target.startswith("#/")):
        return f"{keyword} {target!r} is not a reference within the schema, such as #/$defs/name"
    found: Any = schema
    for part in unquote(target).split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping) and key in found:
            found = found[key]
        elif isinstance(found, list) and key.isdecimal() and int(key) < len(found):
            found = found[int(key)]
        else:
            return f"$ref {target!r} leads nowhere"
    return None
