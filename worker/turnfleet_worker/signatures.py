"""A function's signature as a tool's schema, and a model's arguments as the function's own types."""

import functools
import inspect
import json
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, ValidationError, create_model
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from turnfleet_kernel.contracts.canonical import digest
from turnfleet_kernel.contracts.plain import plain_json
from turnfleet_worker.docstrings import read_docstring
from turnfleet_worker.errors import ArgumentsError, RegistrationError
from turnfleet_worker.toolcontext import ToolContext

_EXTRA = frozenset({"extra_forbidden", "unexpected_keyword_argument"})
_ANNOTATIONS = frozenset({"title", "description", "examples"})
_DATA = frozenset({"default", "const", "enum"})
_OWNERS = frozenset({"self", "cls"})
_SHOWN_PROBLEMS = 8
_STRIPPED = 2  # the level of optimization from which Python keeps no docstring
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class Signature:
    """What a tool's function takes: for the model as `schema`, for the call as `bind`."""

    name: str
    description: str
    schema: Mapping[str, Any]
    digest: str  # SHA-256 hex over the schema without its titles, descriptions and examples
    contexts: tuple[str, ...]  # the parameters that receive a ToolContext; no part of the schema
    _fields: Mapping[str, str]  # parameter -> field of the model below
    _model: type[BaseModel]

    def bind(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Give `arguments` in the function's own types, defaults filled in.

        Raises `ArgumentsError` whose text tells a model what to correct (TOL-3). JSON types are not converted into one
        another ("5" is no number): what a person was shown is what the function gets.
        """
        try:
            # As JSON text: strict about types, and still a date or an enum may come as JSON has them.
            text = json.dumps(plain_json(arguments, "an argument"))
            bound = self._model.model_validate_json(text, strict=True)
        except ValidationError as invalid:
            problems = "; ".join(_problem(error) for error in invalid.errors(include_url=False)[:_SHOWN_PROBLEMS])
        except (ValueError, RecursionError) as unfit:
            problems = str(unfit)
        else:
            return {name: getattr(bound, field) for name, field in self._fields.items()}
        raise ArgumentsError(
            f"The arguments do not fit the tool {self.name!r}: {problems}. Call it again with corrected arguments; "
            f"it takes {_summary(self.schema)}."
        )


def read_signature(
    function: Callable[..., Any], *, name: str | None = None, description: str | None = None
) -> Signature:
    """Read schema and description from `function`'s signature and docstring; a `description` given counts instead.

    Raises `RegistrationError` for what a model could not call: `*args`, `**kwargs`, positional-only parameters, types
    without a JSON form, annotations that name what does not exist; and, where Python strips docstrings, for a function
    whose description was not given.
    """
    target = _unwrapped(function)
    tool = name or str(getattr(target, "__name__", ""))
    if not _NAME.fullmatch(tool):
        raise RegistrationError(
            f"{tool or function!r} is no name that every provider lets a model call: register the tool with name='…', "
            "of at most 64 letters, digits, _ and -, a letter or _ first"
        )
    if inspect.isgeneratorfunction(target) or inspect.isasyncgenfunction(target):
        raise RegistrationError(f"tool {tool!r} yields: return one value, and report progress with ToolContext.emit")
    hints = _hints(target, tool)
    docstring = inspect.getdoc(target)
    if description is None and docstring is None and sys.flags.optimize >= _STRIPPED:
        raise RegistrationError(
            f"tool {tool!r} has no description, and under python -OO (PYTHONOPTIMIZE=2) no docstring can give it one: "
            "a model would not know what it does. Run with -O at most, or register the tool with description='…'"
        )
    told, documented = read_docstring(docstring)
    told = told if description is None else description
    contexts: list[str] = []
    fields: dict[str, Any] = {}
    names: dict[str, str] = {}
    for parameter in inspect.signature(function).parameters.values():
        if not names and not contexts and parameter.name in _OWNERS and parameter.name not in hints:
            raise RegistrationError(
                f"tool {tool!r} is a method, and a model cannot fill {parameter.name!r}: register the method of an "
                "object, as registry.tool(desk.open_case)"
            )
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise RegistrationError(
                f"tool {tool!r}: a model passes arguments by name, and cannot fill {parameter}; name each parameter"
            )
        annotation = hints.get(parameter.name, Any)
        if _is_context(annotation):
            contexts.append(parameter.name)
            continue
        # Behind an alias any parameter name goes, `schema` and `copy` too.
        names[parameter.name] = f"p{len(names)}"
        fields[names[parameter.name]] = _field(parameter, annotation, documented.get(parameter.name))
    model = _model_of(tool, fields)
    schema = _schema_of(tool, model)
    return Signature(tool, told, schema, schema_digest(schema), tuple(contexts), names, model)


def _unwrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """Find the function that carries name, docstring and annotations."""
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isroutine(function):
        return function
    return type(function).__call__ if not inspect.isclass(function) else function


def _hints(target: Callable[..., Any], tool: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(target, include_extras=True)
    except NameError as unknown:
        raise RegistrationError(
            f"tool {tool!r}: its annotations name {unknown.name!r}, which its module does not define"
        ) from unknown


def _is_context(annotation: Any) -> bool:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return any(_is_context(part) for part in typing.get_args(annotation))
    return annotation is ToolContext


def _field(parameter: inspect.Parameter, annotation: Any, documented: str | None) -> tuple[Any, Any]:
    extras: dict[str, Any] = {"alias": parameter.name}
    if isinstance(parameter.default, FieldInfo):
        annotation = Annotated[annotation, parameter.default]
    elif parameter.default is not parameter.empty:
        extras["default"] = deepcopy(parameter.default)
    own = [each.description for each in typing.get_args(annotation) if isinstance(each, FieldInfo)]
    if documented and not any(own):
        extras["description"] = documented
    return annotation, Field(**extras)


def _model_of(tool: str, fields: Mapping[str, Any]) -> type[BaseModel]:
    config = ConfigDict(extra="forbid", use_attribute_docstrings=True)
    try:
        model: type[BaseModel] = create_model(tool, __config__=config, **fields)
    except PydanticUserError as unusable:
        raise RegistrationError(
            f"tool {tool!r}: {_first_line(unusable)}; use types that have a JSON form"
        ) from unusable
    return model


class _Plain(GenerateJsonSchema):
    """Schemas without the titles that only repeat a parameter's name."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        del schema
        return False


def _schema_of(tool: str, model: type[BaseModel]) -> dict[str, Any]:
    try:
        schema = model.model_json_schema(by_alias=True, schema_generator=_Plain)
    except PydanticInvalidForJsonSchema as unusable:
        raise RegistrationError(
            f"tool {tool!r}: {_first_line(unusable)}; use types that have a JSON form"
        ) from unusable
    schema.pop("title", None)
    schema.pop("description", None)
    schema.setdefault("properties", {})
    return schema


def schema_digest(schema: Mapping[str, Any]) -> str:
    """Give the SHA-256 in hex of what a schema demands: its titles, descriptions and examples do not count."""
    return digest(_shape(schema))


def _shape(schema: Any) -> Any:
    """Keep what a schema demands, without the words around it: rewording a description changes no digest."""
    if isinstance(schema, list):
        return [_shape(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: value if key in _DATA else _shape(value)
        for key, value in schema.items()
        # A property of that name holds a schema, not a text.
        if not (key in _ANNOTATIONS and isinstance(value, str | list))
    }


def _problem(error: Mapping[str, Any]) -> str:
    """One validation error in words, without the value that caused it."""
    where = ".".join(str(part) for part in error["loc"]) or "the arguments"
    if error["type"] == "missing":
        return f"{where} is missing"
    if error["type"] in _EXTRA:
        return f"{where} is not an argument of this tool"
    return f"{where}: {error['msg']}"


def _summary(schema: Mapping[str, Any]) -> str:
    """Name the parameters, for a model that forgot them."""
    required = schema.get("required", ())
    parts = [
        f"{name}{'' if name in required else ' (optional)'}: {_kind(described)}"
        for name, described in schema["properties"].items()
    ]
    return ", ".join(parts) or "no arguments"


def _kind(described: Mapping[str, Any]) -> str:
    kind = described.get("type")
    return kind if isinstance(kind, str) else "see its schema"


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".")
