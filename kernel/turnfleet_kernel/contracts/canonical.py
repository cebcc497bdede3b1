"""One way to write JSON down, so that equal values have equal digests (RFC 8785)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import rfc8785

__all__ = ["canonical_json", "digest", "digested_json"]

_SAFE_INTEGER: Final = 2**53 - 1


def canonical_json(value: Any) -> bytes:
    """Write a JSON value canonically.

    Raises:
        ValueError: a value that JSON cannot carry, or a number outside what RFC 8785 allows.
    """
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, RecursionError) as problem:
        msg = f"not canonical JSON: {problem}"
        raise ValueError(msg) from problem


def digested_json(value: Any) -> bytes:
    """Write a JSON value as digests and signatures are computed over it.

    Whole numbers that RFC 8785 refuses (beyond 53 bits: ids of other systems) are written as an object of their own,
    so that arguments holding them still have a digest.

    Raises:
        ValueError: a value that JSON cannot carry.
    """
    return canonical_json(_with_wide_integers(value))


def digest(value: Any) -> str:
    """Give the SHA-256 of a JSON value (see `digested_json`), 64 lowercase hex digits."""
    return hashlib.sha256(digested_json(value)).hexdigest()


def _with_wide_integers(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and abs(value) > _SAFE_INTEGER:
        return {"$integer": str(value)}
    if isinstance(value, Mapping):
        return {key: _with_wide_integers(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_wide_integers(item) for item in value]
    return value
