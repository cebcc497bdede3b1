"""The event log: contiguous, bounded, and the same bytes for late and live readers (DESIGN 3)."""

import json

import pytest
from store.kit import Bench, ending, event

from turnfleet.errors import EventsTrimmed
from turnfleet.store import Keys, commands
from turnfleet.store.records import EventsPage


async def write(bench: Bench, batches: int, each: int = 1) -> None:
    """Write a run with some batches of events."""
    claim = await bench.running()
    for number in range(batches):
        events = [event("run", number * each + place, "text_delta", text="x") for place in range(each)]
        await bench(commands.step(bench.keys, claim, seq=number + 1, events=events))


@pytest.mark.parametrize("after", range(-1, 7))
async def test_a_reader_gets_what_follows_its_index(bench: Bench, after: int) -> None:
    """Also from the middle of a batch: no duplicate, no gap (EVT-2)."""
    await write(bench, batches=2, each=3)
    page = await bench(commands.read_events(bench.keys, "run", after=after))
    assert (list(range(after + 1, 6)), 0, 6, "running") == (
        [e["index"] for e in page.events], page.first_index, page.next_index, page.state,
    )  # fmt: skip


async def test_a_long_log_is_read_in_pages(bench: Bench) -> None:
    """`count` bounds the batches of one page; the last index read is the next cursor."""
    await write(bench, batches=5, each=2)
    cursor, read = -1, []
    while (page := await bench(commands.read_events(bench.keys, "run", after=cursor, count=2))).events:
        assert len(page.events) <= 4
        read += [e["index"] for e in page.events]
        cursor = read[-1]
    assert list(range(10)) == read


async def test_a_run_without_events_has_an_empty_page(bench: Bench) -> None:
    """There is nothing yet, and nothing was trimmed."""
    await bench.create()
    assert EventsPage((), 0, 0, "queued") == await bench(commands.read_events(bench.keys, "run"))


async def test_a_trimmed_log_says_where_it_begins(bench: Bench) -> None:
    """The log is bounded; who asks for what left it learns from where it can read."""
    bench.keys = Keys(bench.keys.fleet, shards=4, log_batches=1)
    await write(bench, batches=250)
    with pytest.raises(EventsTrimmed) as trimmed:
        await bench(commands.read_events(bench.keys, "run", after=-1))
    first = trimmed.value.first_index
    page = await bench(commands.read_events(bench.keys, "run", after=first - 1, count=1_000))
    assert (list(range(first, 250)), first) == ([e["index"] for e in page.events], page.first_index)


async def test_the_log_s_bytes_are_what_was_published(real: Bench) -> None:
    """One batch, one entry, one message: events of the worker and those that a script makes."""
    claim = await real.running()
    async with real.executor.subscribe(real.keys.events("run")) as heard:  # type: ignore[union-attr]
        await anext(heard)
        await real(commands.step(real.keys, claim, seq=1, events=[event("run", 0, "text_delta", text="ü\u2028")]))
        await real(commands.cancel(real.keys, "run", reason="stop"))
        await real(commands.finish(real.keys, claim, seq=2, ending=ending("run", 1)))
        published = [await anext(heard), await anext(heard)]
    entries = await real.log()
    assert published == [batch for _, batch in entries]
    assert [number for number, _ in entries] == [b"0-1", b"0-2"]
    made = json.loads(entries[1][1])[0]
    assert ({"run_id", "index", "kind", "time", "reason"}, float) == (set(made), type(made["time"]))
