"""Following without a server: whatever the channel does to its messages, the reader sees the log (DESIGN 3)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from producer.kit import event

from turnfleet.client.follow import Cursor, follow_events, read_message
from turnfleet.client.setup import Setup
from turnfleet.client.steps import Emit, Execute, Listen
from turnfleet.errors import EventsLost
from turnfleet.store import Keys
from turnfleet.store.command import dump
from turnfleet.store.records import EventsPage
from turnfleet.wire import SizeLimits

SETUP = Setup(Keys("f"), SizeLimits(), poll_interval=1.0, reconnect_timeout=1.0, retention_ms=1)


NOISE = (b"", b"{}", b"[]", b"nonsense", b'[{"index": "x"}]')

messages = st.sampled_from(NOISE) | st.builds(
    lambda start, count: _batch(start, start + count), st.integers(0, 11), st.integers(1, 3)
)
moments = st.lists(st.tuples(st.integers(0, 3), st.lists(messages, max_size=2)), max_size=6)
"""How many events the log gains at each moment, and what the channel says then: late, repeated, or noise."""


def _batch(start: int, stop: int) -> bytes:
    return dump([_nth(index) for index in range(start, stop)])


def _nth(index: int) -> dict[str, Any]:
    return event("r", index, "text_delta", text=str(index))


@given(moments, st.integers(-1, 5), st.integers(0, 3))
def test_the_reader_sees_the_log_whatever_the_channel_does(
    drawn: list[tuple[int, list[bytes]]], after: int, more: int
) -> None:
    """Every event after `after`, once, in order; then the end, because the state is terminal and all was read."""
    length, coming, heard = after + 1 + more, list(drawn), list[bytes]()
    total = length + sum(gained for gained, _ in drawn)
    seen: list[int] = []
    reading = follow_events(SETUP, "r", after=after)
    reply: Any = None
    for _ in range(500):
        try:
            step = reading.send(reply)
        except StopIteration:
            break
        match step:
            case Execute():
                first = max(seen[-1] if seen else after, after) + 1
                page = tuple(_nth(index) for index in range(first, length))[:4]
                reply = EventsPage(page, 0, length, "running" if coming else "completed")
            case Listen():
                if not heard and coming:
                    gained, heard = coming.pop(0)
                    length += gained
                message = heard.pop(0) if heard else None
                known = read_message(message)
                # A message about what is not in the log yet cannot be: the script writes both at once.
                reply = None if known and known[-1]["index"] >= length else message
            case Emit(value=value):
                seen.append(value.index)
                reply = None
    else:
        raise AssertionError("the reader did not come to an end")
    assert seen == list(range(after + 1, total))


def test_a_log_that_ends_before_what_was_read_is_no_reason_to_wait() -> None:
    """Also for a reader that comes back with the index of an event that a failover has lost."""
    reading = follow_events(SETUP, "r", after=3)
    next(reading)
    with pytest.raises(EventsLost) as told:
        reading.send(EventsPage((), 0, 3, "running"))
    assert told.value.next_index == 3


def test_a_cursor_gives_only_what_follows_on() -> None:
    """What was had is left out, and a gap ends it: the log will say."""
    cursor = Cursor(2)
    assert [each["index"] for each in cursor.follow_on([_nth(index) for index in (1, 2, 3, 4, 6, 7)])] == [3, 4]
    assert cursor.last == 4


def test_what_is_no_batch_of_events_is_a_reason_to_look() -> None:
    """Silence, a notice, and noise are all the same to a reader."""
    for message in (None, b"", b"[]", b"5", b"null", b'"x"', b"[1]", b'[{"kind": "x"}]', b"\xff"):
        assert read_message(message) is None
