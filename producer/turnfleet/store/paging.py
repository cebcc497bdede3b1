"""Pages over shards: each shard gives its newest, and one position in time says where all of them go on."""

import base64
import binascii
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeAlias, TypeVar

from turnfleet.errors import InvalidId

Position: TypeAlias = tuple[int, str]
"""A time (ms) and a run id: newest first, ties by run id, highest first."""


class Positioned(Protocol):
    """A row that knows where it stands in a listing."""

    @property
    def position(self) -> Position:
        """The row's time and run id."""


R = TypeVar("R", bound=Positioned)


@dataclass(frozen=True, slots=True)
class Page(Generic[R]):
    """Rows of one index, newest first. `stopped`: everything newer was looked at, older was not; None: all was."""

    rows: tuple[R, ...]
    stopped: Position | None


def merge_pages(pages: Iterable[Page[R]], limit: int) -> Page[R]:
    """Return the newest `limit` rows of several pages that began at the same position.

    A page that stopped early hides what is older than where it stopped, so nothing older than the newest stop is
    given. `stopped` of the result is where the next pages begin; the result may be empty and yet not be the end.
    """
    pages = list(pages)
    bound = max((page.stopped for page in pages if page.stopped is not None), default=None)
    rows = sorted((row for page in pages for row in page.rows), key=lambda row: row.position, reverse=True)
    shown = [row for row in rows if bound is None or row.position >= bound]
    if len(shown) > limit:
        return Page(tuple(shown[:limit]), shown[limit - 1].position)
    return Page(tuple(shown), bound)


def share_of(limit: int, shards: int) -> int:
    """Say how many rows to ask each shard for first, so that all of them together nearly always make up a page.

    Run ids are spread evenly by their hash: a shard has `limit / shards` of the newest rows, give or take the root of
    that. Three times the root, and two more, is enough for 16 shards and a page of 50 in all but rare cases.
    """
    expected = limit / shards
    return min(limit, math.ceil(expected + 3 * math.sqrt(expected) + 2))


def to_cursor(position: Position | None) -> str | None:
    """Return a position as the opaque text that users hand back, None at the end."""
    if position is None:
        return None
    return base64.urlsafe_b64encode(f"{position[0]}/{position[1]}".encode()).decode().rstrip("=")


def from_cursor(cursor: str | None) -> Position | None:
    """Return the position that a cursor stands for. Raises `InvalidId` for what is no cursor."""
    if cursor is None:
        return None
    try:
        padded = cursor.encode() + b"=" * (-len(cursor) % 4)
        time, run_id = base64.b64decode(padded, altchars=b"-_", validate=True).decode().split("/")
        return int(time), run_id
    except (ValueError, binascii.Error, UnicodeError) as error:
        raise InvalidId("cursor", cursor, "use the one that came with the last page") from error


def newest_first(rows: Sequence[R]) -> list[R]:
    """Return rows in listing order."""
    return sorted(rows, key=lambda row: row.position, reverse=True)
