"""How a finding's numbers and names are written."""

from collections.abc import Iterable, Sequence

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))
_SHOWN = 3


def span(seconds: float) -> str:
    """Return a time as a person says it: "1.2 s", "7 min", "3 d"."""
    for size, unit in _UNITS:
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= _SHOWN else f"{seconds:.1f} s"


def size(count: float) -> str:
    """Return a number of bytes as a person says it."""
    for unit in ("bytes", "KB", "MB"):
        if count < 1024:  # noqa: PLR2004 - what a KB is
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GB"


def some(names: Iterable[str]) -> str:
    """Return a few names, and how many more there are."""
    listed: Sequence[str] = list(dict.fromkeys(names))
    more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    return ", ".join(listed[:_SHOWN]) + more


def number(count: int, one: str, many: str = "") -> str:
    """Return "1 run" or "3 runs"."""
    return f"{count} {one if count == 1 else many or one + 's'}"
