"""Does a value fit a JSON Schema? The one place that asks (TOL-3, HK-6)."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from turnfleet_kernel.contracts.frozen import thaw

__all__ = ["schema_problem"]

_KEPT: Final = 512
_validators: OrderedDict[int, tuple[Mapping[str, Any], Any]] = OrderedDict()
"""Compiled validators by the identity of their schema, which the entry keeps alive. Newest last."""

_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}
_PLAIN_OBJECT: Final = {"type", "properties", "required", "additionalProperties", "title", "description", "$schema"}
_PLAIN_PROPERTY: Final = {"type", "title", "description", "default"}


def schema_problem(schema: Mapping[str, Any] | None, value: Any) -> str | None:
    """Say what keeps the value from fitting, naming the place in it; None when it fits or there is no schema.

    A schema counts as fixed once it has been used. The value itself is not repeated in the text.

    Raises:
        jsonschema.SchemaError: the schema is none.
    """
    if schema is None or _fits_plainly(schema, value):
        return None
    return _explain(schema, thaw(value))


def _fits_plainly(schema: Mapping[str, Any], value: Any) -> bool:
    """Accept what the commonest kind of schema (an object of plain typed fields) accepts; False decides nothing.

    A full validation costs more than the rest of an instant tool call.
    """
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(value, dict) or not isinstance(properties, Mapping):
        return False
    if not schema.keys() <= _PLAIN_OBJECT or not value.keys() <= properties.keys():
        return False
    if any(name not in value for name in schema.get("required", ())):
        return False
    return all(_has_plain_type(properties[name], item) for name, item in value.items())


def _has_plain_type(schema: Any, item: Any) -> bool:
    if not isinstance(schema, Mapping) or not schema.keys() <= _PLAIN_PROPERTY:
        return False
    kind = schema.get("type")
    if not isinstance(kind, str) or kind not in _TYPES:
        return False
    return isinstance(item, _TYPES[kind]) and (kind == "boolean" or not isinstance(item, bool))


def _explain(schema: Mapping[str, Any], value: Any) -> str | None:
    from jsonschema.exceptions import best_match  # noqa: PLC0415 - a plan without schemas never pays for it

    problem = best_match(_validator(schema).iter_errors(value))
    if problem is None:
        return None
    place = ".".join(str(step) for step in problem.absolute_path)
    return f"{place + ': ' if place else ''}{_without_value(problem)}"


def _validator(schema: Mapping[str, Any]) -> Any:
    kept = _validators.get(id(schema))
    if kept is not None and kept[0] is schema:
        return kept[1]
    from jsonschema.validators import validator_for  # noqa: PLC0415 - as above

    plain = thaw(schema)
    kind = validator_for(plain)
    kind.check_schema(plain)
    validator = kind(plain)
    _validators[id(schema)] = (schema, validator)
    while len(_validators) > _KEPT:
        _validators.popitem(last=False)
    return validator


def _without_value(problem: Any) -> str:
    """Say which rule is broken and what it asks for: the library's own text repeats the value."""
    rule, asked = problem.validator, problem.validator_value
    if rule == "required":
        missing = [name for name in asked if name not in problem.instance]
        return f"missing {', '.join(map(repr, missing))}"
    if rule == "type":
        return f"must be of type {asked if isinstance(asked, str) else ' or '.join(asked)}"
    if rule == "additionalProperties" and isinstance(problem.instance, Mapping):
        known = problem.schema.get("properties", {})
        return f"unknown {', '.join(repr(name) for name in problem.instance if name not in known)}"
    if rule == "enum":
        return f"must be one of {', '.join(map(repr, asked))}"
    return f"breaks {rule}: {asked!r}" if isinstance(asked, str | int | float) else f"breaks {rule}"
