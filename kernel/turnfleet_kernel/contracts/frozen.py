"""Deep freezing: what stages publish and what plans hold cannot change under a reader (IPL-1, STG-8)."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from pathlib import PurePath
from typing import Any, NoReturn, TypeVar
from uuid import UUID

__all__ = ["FrozenDict", "ResolvedInputs", "freeze", "thaw"]

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")

_PLAIN = frozenset({str, int, float, bool, type(None)})
"""What most values are: told at a glance, before any question that costs more."""
_ATOMS = (str, int, float, complex, bool, bytes, type(None), Decimal, UUID, date, time, timedelta, PurePath, enum.Enum)


class FrozenDict(dict[KeyT, ValueT]):
    """A dict that refuses to change: every mutating method raises TypeError.

    It stays a dict, so that JSON encoders, pydantic and ``==`` treat it as one.
    """

    __slots__ = ()

    def __hash__(self) -> int:  # type: ignore[override]
        """Hash by content, so that a frozen plan can be a key."""
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        """Rebuild through the constructor: the default way would set items one by one."""
        return (type(self), (dict(self),))


def _refuse(self: object, *_: object, **__: object) -> NoReturn:
    msg = f"a {type(self).__name__} cannot be changed; build a new value instead"
    raise TypeError(msg)


for _name in ("__setitem__", "__delitem__", "__ior__", "clear", "pop", "popitem", "setdefault", "update"):
    setattr(FrozenDict, _name, _refuse)


class ResolvedInputs(FrozenDict[str, Any]):
    """What RESOLVE stages published, bound once and read-only after (STG-8, RCX-6)."""

    __slots__ = ()


def freeze(value: Any) -> Any:
    """Give the deeply frozen twin of a value.

    Mappings become FrozenDict, sequences tuple, sets frozenset; a frozen dataclass is rebuilt from frozen fields.

    Raises:
        TypeError: something inside can change and has no frozen form (an open file, a plain object).
    """
    if isinstance(value, _ATOMS):
        return value
    if isinstance(value, Mapping):
        kind = type(value) if isinstance(value, FrozenDict) else FrozenDict
        return kind({freeze(key): freeze(item) for key, item in value.items()})
    if isinstance(value, list | tuple):
        items = [freeze(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, set | frozenset):
        return frozenset(freeze(item) for item in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _freeze_dataclass(value)
    msg = f"a {type(value).__name__} cannot be frozen"
    raise TypeError(msg)


def _freeze_dataclass(value: Any) -> Any:
    if not type(value).__dataclass_params__.frozen:
        msg = f"the dataclass {type(value).__name__} is not declared frozen"
        raise TypeError(msg)
    fields = [field.name for field in dataclasses.fields(value) if field.init]
    return dataclasses.replace(value, **{name: freeze(getattr(value, name)) for name in fields})


def thaw(value: Any) -> Any:
    """Give plain dicts and lists back for FrozenDicts and tuples; everything else as it is."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Mapping):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [thaw(item) for item in value]
    return value
