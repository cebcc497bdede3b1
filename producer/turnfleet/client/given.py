"""What callers hand in who run no type checker: refused by the argument's name, before anybody is asked.

A wrong type is a TypeError and a value out of range a ValueError, as of Python's own functions. Left to themselves, a
role given as plain text would be read letter by letter, and a limit of -1 would be a listing without end.
"""

import inspect
import math
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import PydanticUserError, TypeAdapter

__all__ = ["adapter_of", "check_decider", "check_page", "check_reading", "check_timeout", "json_schema", "roles_of"]


def adapter_of(output: Any) -> TypeAdapter[Any]:
    """Give what reads an output of this type. Raises TypeError for what pydantic cannot validate."""
    unfit = TypeError(f"output= is a type that pydantic can validate, such as a model or list[int], not {output!r:.80}")
    if inspect.isroutine(output):  # pydantic would read it as the arguments of a call
        raise unfit
    try:
        return TypeAdapter(output)
    except (PydanticUserError, TypeError):
        raise unfit from None


def json_schema(reader: TypeAdapter[Any]) -> dict[str, Any]:
    """Give the JSON Schema that a model is asked to fit. Raises TypeError for a type that has none."""
    try:
        return reader.json_schema()
    except PydanticUserError as unusable:
        raise TypeError(f"output= has no JSON Schema to ask a model for: {str(unusable).splitlines()[0]}") from None


def check_reading(after: object, until: object, timeout: object) -> None:
    """Check what `events` takes."""
    if not isinstance(after, int) or isinstance(after, bool):
        raise TypeError(f"after= is the index of the last event that you had, or -1 for all of them, not {after!r:.80}")
    if until not in {"terminal", "pause"}:
        raise ValueError(f"until= is 'terminal' or 'pause', not {until!r:.80}")
    check_timeout(timeout)


def check_timeout(timeout: object) -> None:
    """Check a time to wait."""
    if timeout is not None and not _is_number(timeout):
        raise TypeError(f"timeout= is a number of seconds, or None, not {timeout!r:.80}")


def check_page(limit: object, **names: object) -> None:
    """Check what a page is asked for by: how many rows, and names that stand for themselves."""
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise TypeError(f"limit= is a whole number, not {limit!r:.80}")
    if limit < 1:
        raise ValueError(f"limit= is 1 or more, not {limit}")
    for name, value in names.items():
        if value is not None and not isinstance(value, str):
            raise TypeError(f"{name}= is one name, or None, not {value!r:.80}")


def check_decider(decisions: object, by: object, roles: object, shown: object) -> None:
    """Check what `resume` takes beside the decisions themselves."""
    if not isinstance(decisions, Mapping) or not all(isinstance(each, str) for each in decisions):
        raise TypeError(
            "resume takes decisions by the ids of their interrupts, as "
            "{interrupt.id: Approve() for interrupt in run.interrupts()}"
        )
    if not isinstance(by, str) or not by:
        raise TypeError(f"by= is the name of who decides, a non-empty text, not {by!r:.80}")
    roles_of(roles)
    if not isinstance(shown, Mapping):
        raise TypeError("shown= is a mapping of interrupt ids to the digests that were shown")


def roles_of(roles: object) -> tuple[str, ...]:
    """Give roles as a tuple. Raises TypeError for a lone text, which would be read letter by letter."""
    if isinstance(roles, str) or not isinstance(roles, Sequence | set | frozenset):
        raise TypeError(f"roles= is a sequence of role names, such as ('finance',), not {roles!r:.80}")
    named = tuple(roles)
    if not all(isinstance(role, str) for role in named):
        raise TypeError("roles= is a sequence of role names, and a name is text")
    return named


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)
