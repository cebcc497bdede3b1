"""The wire form of a plan: names only, content-addressed (IPL-3, IPL-4)."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Self, overload

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    model_validator,
)

from turnfleet_kernel.contracts.canonical import canonical_json
from turnfleet_kernel.contracts.frozen import FrozenDict, freeze, thaw
from turnfleet_kernel.contracts.limits import PlanLimits
from turnfleet_kernel.contracts.plain import plain_json
from turnfleet_kernel.errors import PlanError

__all__ = ["SPEC_VERSION", "PlanSpec", "StageSpec", "plan_id"]

SPEC_VERSION: Final = 1
"""Written into what a plan id is computed over."""


def _frozen_json(value: Any) -> Any:
    return freeze(plain_json(value))


def _stage_from_name(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


def _names_only(value: Any) -> Any:
    """Refuse, in words that help, what is often given in the place of names."""
    if isinstance(value, str):
        msg = "names come as a sequence, also a single one: ('refund',)"
        raise ValueError(msg)  # noqa: TRY004 - pydantic makes its own error of a ValueError
    given = next((each for each in value if callable(each)), None) if isinstance(value, list | tuple) else None
    if given is not None:
        msg = f"{getattr(given, '__name__', 'it')} is given by the name that it is registered under, as text"
        raise ValueError(msg)
    return value


def _no_type(value: Any) -> Any:
    if isinstance(value, type):
        msg = f"it is a JSON Schema: enqueue with output={value.__name__}, or give TypeAdapter(...).json_schema()"
        raise ValueError(msg)  # noqa: TRY004 - as above
    return value


Name = Annotated[str, Field(min_length=1)]
Names = Annotated[tuple[Name, ...], BeforeValidator(_names_only)]
JsonObject = Annotated[Mapping[str, Any], AfterValidator(_frozen_json), PlainSerializer(thaw)]


class _Frozen(BaseModel):
    model_config = ConfigDict(
        defer_build=True, frozen=True, extra="forbid", hide_input_in_errors=True, allow_inf_nan=False
    )


class StageSpec(_Frozen):
    """A stage by name, with its settings (JSON)."""

    name: Name
    settings: JsonObject = Field(default_factory=FrozenDict[str, Any])


class PlanSpec(_Frozen):
    """Everything about how to run, in plain JSON.

    ``model`` is a model's name, or a palette: a mapping (palette name to model name) or a tuple of names that stand
    for themselves, the first being the one used unless resolved inputs say otherwise (IPL-6). ``stages`` takes names
    where a stage needs no settings. ``response`` is the JSON Schema of the answer, None for text.

    Raises:
        pydantic.ValidationError: a field of the wrong type, an unknown field, a value that is not JSON.
        PlanError: limits that make no sense.
    """

    name: Name
    instructions: str = ""
    model: Name | tuple[Name, ...] | Annotated[Mapping[Name, Name], AfterValidator(freeze), PlainSerializer(thaw)]
    tools: Names = ()
    stages: tuple[Annotated[StageSpec, BeforeValidator(_stage_from_name)], ...] = ()
    limits: PlanLimits = PlanLimits()
    response: Annotated[JsonObject | None, BeforeValidator(_no_type)] = None
    delegates: Names = ()
    version: str = "1"

    if TYPE_CHECKING:
        # What the constructor takes, for type checkers: more than the fields hold once they are validated.
        @overload
        def __init__(
            self,
            name: str,
            instructions: str,
            model: str | Sequence[str] | Mapping[str, str],
            tools: Sequence[str] = (),
            stages: Sequence[StageSpec | str] = (),
            limits: PlanLimits | Mapping[str, Any] = ...,
            response: Mapping[str, Any] | None = None,
            delegates: Sequence[str] = (),
            version: str = "1",
        ) -> None: ...
        @overload
        def __init__(
            self,
            name: str,
            *,
            model: str | Sequence[str] | Mapping[str, str],
            instructions: str = "",
            tools: Sequence[str] = (),
            stages: Sequence[StageSpec | str] = (),
            limits: PlanLimits | Mapping[str, Any] = ...,
            response: Mapping[str, Any] | None = None,
            delegates: Sequence[str] = (),
            version: str = "1",
        ) -> None: ...
        def __init__(self, *values: Any, **fields: Any) -> None: ...

    else:

        def __init__(self, *values: Any, **fields: Any) -> None:
            names = tuple(type(self).model_fields)
            if len(values) > len(names):
                raise TypeError(f"PlanSpec takes {len(names)} values, not {len(values)}: {', '.join(names)}")
            for name, value in zip(names, values, strict=False):
                if name in fields:
                    raise TypeError(f"PlanSpec was given {name} twice")
                fields[name] = value
            super().__init__(**fields)

        # As pydantic's own RootModel has it: plans that come as JSON are read without a call of Python's.
        __init__.__pydantic_base_init__ = True

    @model_validator(mode="after")
    def _says_each_thing_once(self) -> Self:
        if not self.model:
            msg = "a palette needs at least one model"
            raise ValueError(msg)
        callables = (*self.tools, *self.delegates)
        repeated = sorted({name for name in callables if callables.count(name) > 1})
        if repeated:
            msg = f"tools and delegates share one namespace; named more than once: {', '.join(repeated)}"
            raise ValueError(msg)
        return self

    @property
    def palette(self) -> Mapping[str, str]:
        """Palette name to model name; a single model is a palette of one."""
        if isinstance(self.model, str):
            return FrozenDict({self.model: self.model})
        if isinstance(self.model, tuple):
            return FrozenDict({name: name for name in self.model})
        return self.model


def plan_id(spec: PlanSpec) -> str:
    """Name a plan by its content: SHA-256 over its RFC 8785 JSON, 64 lowercase hex digits (IPL-4).

    ``spec_version`` is always part of it; fields equal to their default are left out at every level, so that a new
    field changes no old id.

    Raises:
        PlanError: a number that canonical JSON refuses (a whole number beyond 53 bits).
    """
    content = spec.model_dump(mode="json", exclude_defaults=True)
    try:
        return hashlib.sha256(canonical_json({"spec_version": SPEC_VERSION, **content})).hexdigest()
    except ValueError as problem:
        msg = f"plan {spec.name!r} has no id: {problem}"
        raise PlanError(msg) from problem
