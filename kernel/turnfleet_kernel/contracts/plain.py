"""What JSON can carry, and nothing else (HK-3, IPL-4)."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["plain_json"]


def plain_json(value: Any, where: str = "value") -> Any:
    """Give the plain JSON twin of a value: dicts with text keys, lists, text, finite numbers, true, false, null.

    Tuples count as arrays and subclasses as their base (JSON knows no others). ``where`` names the value in errors;
    the message gives the path to what cannot be carried, never the value.

    Raises:
        ValueError: something inside does not survive JSON.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value, where)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            msg = f"{where} is not a finite number; JSON cannot carry it"
            raise ValueError(msg)
        return float(value)
    if isinstance(value, Mapping):
        return dict(_members(value, where))
    if isinstance(value, list | tuple):
        return [plain_json(item, f"{where}[{position}]") for position, item in enumerate(value)]
    msg = f"{where} is a {type(value).__name__}; JSON cannot carry it"
    raise ValueError(msg)


def _members(value: Mapping[Any, Any], where: str) -> Iterator[tuple[str, Any]]:
    for key, item in value.items():
        if not isinstance(key, str):
            msg = f"{where} has a key that is a {type(key).__name__}; JSON keys are text"
            raise ValueError(msg)  # noqa: TRY004 - one error type for "not JSON"; pydantic needs a ValueError
        yield _text(key, where), plain_json(item, f"{where}.{key}")


def _text(value: str, where: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        msg = f"{where} holds half a surrogate pair; JSON cannot carry it"
        raise ValueError(msg) from None
    return str.__str__(value)
