"""Does a value fit a JSON Schema? The one place that asks (TOL-3, HK-6)."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from turnfleet_kernel.contracts.frozen import thaw

__all__ = ["schema_problem"]

_KEPT: Final = 512
_compiled: OrderedDict[int, "_Compiled"] = OrderedDict()
"""Schemas by identity, which the entry keeps alive. Newest last."""

_TYPES: Final[Mapping[str, frozenset[type]]] = {
    "string": frozenset({str}),
    "integer": frozenset({int}),
    "number": frozenset({int, float}),
    "boolean": frozenset({bool}),
}
_PLAIN_OBJECT: Final = {"type", "properties", "required", "additionalProperties", "title", "description", "$schema"}
_PLAIN_PROPERTY: Final = {"type", "title", "description", "default"}
_ANYTHING_ELSE: Final[frozenset[type]] = frozenset()


class _Compiled:
    """A schema that has been looked at once.

    Most are objects of plain typed fields; whether such a one accepts a value is told by ``fields`` and ``required``
    alone, at a small part of what a full validation costs. That is asked for only when they do not accept.
    """

    __slots__ = ("fields", "required", "schema", "validator")

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.schema = schema
        self.fields, self.required = _plain_fields(schema)
        self.validator: Any = None

    def accepts(self, value: Any) -> bool:
        """Accept what surely fits; False decides nothing."""
        fields = self.fields
        if fields is None or not isinstance(value, dict) or not self.required <= value.keys():
            return False
        for name, item in value.items():  # noqa: SIM110 - a generator costs more than the whole look
            if type(item) not in fields.get(name, _ANYTHING_ELSE):
                return False
        return True


def schema_problem(schema: Mapping[str, Any] | None, value: Any) -> str | None:
    """Say what keeps the value from fitting, naming the place in it; None when it fits or there is no schema.

    A schema counts as fixed once it has been used. The value itself is not repeated in the text. Nothing is ever
    fetched: a schema that is none, or that refers to what it does not hold, fits no value and is named as the problem.
    """
    if schema is None:
        return None
    compiled = _compiled.get(id(schema))
    if compiled is None or compiled.schema is not schema:
        compiled = _compile(schema)
    return None if compiled.accepts(value) else _explain(compiled, thaw(value))


def _compile(schema: Mapping[str, Any]) -> _Compiled:
    compiled = _compiled[id(schema)] = _Compiled(schema)
    while len(_compiled) > _KEPT:
        _compiled.popitem(last=False)
    return compiled


def _plain_fields(schema: Any) -> tuple[dict[str, frozenset[type]] | None, frozenset[str]]:
    if not isinstance(schema, Mapping) or schema.get("type") != "object" or not schema.keys() <= _PLAIN_OBJECT:
        return None, frozenset()
    properties, required = schema.get("properties"), schema.get("required", ())
    if not isinstance(properties, Mapping) or not isinstance(required, list | tuple):
        return None, frozenset()
    if not all(isinstance(name, str) for name in required):
        return None, frozenset()
    return {name: _plain_types(each) for name, each in properties.items()}, frozenset(required)


def _plain_types(schema: Any) -> frozenset[type]:
    if not isinstance(schema, Mapping) or not schema.keys() <= _PLAIN_PROPERTY:
        return _ANYTHING_ELSE
    kind = schema.get("type")
    return _TYPES.get(kind, _ANYTHING_ELSE) if isinstance(kind, str) else _ANYTHING_ELSE


def _explain(compiled: _Compiled, value: Any) -> str | None:
    from jsonschema.exceptions import best_match  # noqa: PLC0415 - a plan without schemas never pays for it

    try:
        problem = best_match(_validator(compiled).iter_errors(value))
    except Exception as unusable:  # noqa: BLE001 - whoever wrote the schema, the run that meets it does not break
        return f"the schema to check it by cannot be used ({type(unusable).__name__.lstrip('_')})"
    if problem is None:
        return None
    place = ".".join(str(step) for step in problem.absolute_path)
    return f"{place + ': ' if place else ''}{_without_value(problem)}"


def _validator(compiled: _Compiled) -> Any:
    if compiled.validator is None:
        from jsonschema.validators import validator_for  # noqa: PLC0415 - as above
        from referencing import Registry  # noqa: PLC0415 - as above

        plain = thaw(compiled.schema)
        kind = validator_for(plain)
        kind.check_schema(plain)
        # A registry of its own, and empty: left to itself jsonschema fetches what a schema refers to.
        compiled.validator = kind(plain, registry=Registry())
    return compiled.validator


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
