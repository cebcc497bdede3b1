"""Pages of runs and of what waits for people, over all shards (API "fleet.runs", "fleet.interrupts")."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from store.kit import APPROVE, Bench, approval, ending

from turnfleet.errors import InvalidId
from turnfleet.store import Command, commands
from turnfleet.store.paging import Page, Position, from_cursor, merge_pages, to_cursor
from turnfleet.store.records import InboxEntry, NewDecision, Snapshot


async def pages(bench: Bench, build: Any, limit: int, **filters: Any) -> list[list[str]]:
    """Read all pages of a listing, and give the run ids of each."""
    read, cursor = [], None
    while True:
        parts: list[Page[Snapshot] | Page[InboxEntry]] = []
        for shard in range(bench.keys.shards):
            command: Command[Any] = build(bench.keys, shard, before=from_cursor(cursor), limit=limit, **filters)
            parts.append(await bench(command))
        page: Page[Any] = merge_pages(parts, limit)
        read.append([row.run_id for row in page.rows])
        cursor = to_cursor(page.stopped)
        if cursor is None:
            return read


async def backdate(bench: Bench, run_id: str, created: int) -> None:
    """Let a run look as if it had been created at another time."""
    prefix = bench.keys.prefix(bench.keys.shard(run_id))
    await bench.look.hset(bench.keys.record(run_id), "created", str(created))
    for index in ("s:queued", "t:acme"):
        await bench.look.zadd(prefix + index, {run_id: created}, xx=True)


async def test_runs_are_listed_newest_first_over_all_shards(bench: Bench) -> None:
    """Every run once, in order, whatever the page size; runs of one millisecond are told apart by their id."""
    names = [f"run{n:02}" for n in range(20)]
    for number, name in enumerate(names):
        await bench.create(name)
        await backdate(bench, name, 1_000 + number // 3)
    for limit in (1, 3, 7, 50):
        read = await pages(bench, commands.listing, limit)
        assert names[::-1] == [name for page in read for name in page]
        assert max(map(len, read)) == min(limit, 20)


async def test_a_page_that_ends_the_listing_says_so(bench: Bench) -> None:
    """No empty page follows the last row."""
    for number in range(4):
        await bench.create(f"r{number}")
    assert [len(page) for page in await pages(bench, commands.listing, 2)] == [2, 2]


async def test_runs_are_filtered_by_state_and_tenant(bench: Bench) -> None:
    """Either, both, or neither."""
    await bench.create("a", tenant="acme")
    await bench.create("b", tenant="other")
    await bench.running("c", tenant="acme")
    await bench.paused(run_id="d")

    async def ids(**filters: Any) -> set[str]:
        return {name for page in await pages(bench, commands.listing, 2, **filters) for name in page}

    assert {"a", "b", "c", "d"} == await ids()
    assert {"a", "b"} == await ids(state="queued")
    assert {"a", "c"} == await ids(tenant="acme")
    assert {"c"} == await ids(tenant="acme", state="running")
    assert set() == await ids(tenant="acme", state="failed")


async def test_a_listed_paused_run_shows_its_interrupts(bench: Bench) -> None:
    """So that a list can say what each run waits for; the rest is what `status` says."""
    await bench.paused()
    (row,) = (await bench(commands.listing(bench.keys, bench.keys.shard("run"), state="paused"))).rows
    assert await bench.status() == row


async def test_a_forgotten_run_leaves_the_listing(bench: Bench) -> None:
    """Its index entry is dropped while listing."""
    claim = await bench.running()
    await bench(commands.finish(bench.keys, claim, seq=1, ending=ending("run", 0)))
    await bench.expire_record("run")
    assert await pages(bench, commands.listing, 5, state="completed") == [[]]
    assert await bench.look.exists(bench.keys.prefix(bench.keys.shard("run")) + "s:completed") == 0


async def test_the_inbox_holds_what_is_open(bench: Bench) -> None:
    """Decided interrupts and runs that ended are not in it."""
    await bench.paused(approval(1), approval(2), run_id="part")
    await bench.paused(run_id="over")
    await bench.create("queued")
    await bench(commands.resume(bench.keys, "part", decisions=[NewDecision("approval:c1", APPROVE)], by="alice"))
    await bench(commands.cancel(bench.keys, "over", reason=""))
    (entry,) = [
        row for shard in range(bench.keys.shards) for row in (await bench(commands.inbox(bench.keys, shard))).rows
    ]
    assert (entry.run_id, entry.plan_name, [i.id for i in entry.interrupts]) == ("part", "support", ["approval:c2"])


async def test_the_inbox_is_filtered_by_role_and_tenant(bench: Bench) -> None:
    """What anybody may decide concerns every role."""
    await bench.paused(approval(roles=("finance",)), run_id="money", tenant="acme")
    await bench.paused(approval(), run_id="any", tenant="other")
    assert {"money", "any"} == {n for p in await pages(bench, commands.inbox, 1, role="finance") for n in p}
    assert {"any"} == {n for p in await pages(bench, commands.inbox, 1, role="support") for n in p}
    assert {"money"} == {n for p in await pages(bench, commands.inbox, 1, tenant="acme") for n in p}


def test_a_state_that_does_not_exist_is_refused(bench: Bench) -> None:
    """With the ones that do."""
    with pytest.raises(ValueError, match="queued, parked, running"):
        commands.listing(bench.keys, 0, state="sleeping")


@pytest.mark.parametrize("cursor", ["", "!", "YWJj", "MTIz=", "é"])
def test_a_cursor_that_is_none_is_refused(cursor: str) -> None:
    """With a named error."""
    with pytest.raises(InvalidId, match="cursor"):
        from_cursor(cursor)


POSITIONS = st.tuples(st.integers(0, 20), st.text("ab", min_size=1, max_size=3))


@given(position=POSITIONS)
def test_a_cursor_comes_back_as_it_was(position: Position) -> None:
    """And is opaque in between."""
    assert position == from_cursor(to_cursor(position))


class Row:
    """A row that only has a position."""

    def __init__(self, position: Position) -> None:
        self.position = position


@given(shards=st.lists(st.sets(POSITIONS), max_size=4), limit=st.integers(1, 5), scan=st.integers(1, 6))
def test_merged_pages_lose_and_repeat_nothing(shards: list[set[Position]], limit: int, scan: int) -> None:
    """Also when a shard stops early because it may look at `scan` entries only, every second of which matches."""
    everything = sorted({p for shard in shards for p in shard if p[0] % 2}, reverse=True)
    read: list[Position] = []
    before: Position | None = None
    while True:
        parts = []
        for shard in shards:
            ahead = sorted((p for p in shard if before is None or p < before), reverse=True)
            seen = ahead[:scan]
            stopped = seen[-1] if len(ahead) > scan else None
            parts.append(Page(tuple(Row(p) for p in seen if p[0] % 2), stopped))
        page = merge_pages(parts, limit)
        assert len(page.rows) <= limit
        read += [row.position for row in page.rows]
        before = page.stopped
        if before is None:
            break
    assert everything == sorted(set(read), reverse=True)
    assert read == sorted(read, reverse=True)
