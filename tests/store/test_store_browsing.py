"""Reading many runs without changing anything: what a check before a rollout stands on."""

import pytest
from store.kit import Bench

from turnfleet.errors import UnknownRun
from turnfleet.store import commands
from turnfleet.store.paging import Position
from turnfleet.store.scripts import script


async def browse(bench: Bench, limit: int, **filters: str) -> list[str]:
    """Give the ids of all pages of all shards."""
    found: list[str] = []
    for shard in range(bench.keys.shards):
        before: Position | None = None
        while True:
            page = await bench(commands.browse(bench.keys, shard, before=before, limit=limit, **filters))
            found += page.run_ids
            if page.stopped is None:
                break
            before = page.stopped
    return sorted(found)


async def test_browsing_gives_every_run_of_a_state_once(bench: Bench) -> None:
    """Whatever the page size, and of one tenant where it is asked for."""
    for number in range(12):
        await bench.create(f"r{number:02}", tenant="acme" if number % 3 == 0 else None)
    await bench.paused(run_id="waits", tenant="acme")
    every = [f"r{number:02}" for number in range(12)]
    assert await browse(bench, 100, state="queued") == every
    assert await browse(bench, 1, state="queued") == every
    assert await browse(bench, 2, state="queued", tenant="acme") == ["r00", "r03", "r06", "r09"]
    assert await browse(bench, 2, state="paused") == ["waits"]
    with pytest.raises(ValueError, match="does not exist"):
        commands.browse(bench.keys, 0, state="lost")


async def test_browsing_leaves_what_is_gone_where_it_is(bench: Bench) -> None:
    """An index entry of a run that is gone is not given, and not removed: that is others' to do."""
    shard = bench.keys.shard("ghost")
    index = f"{bench.keys.prefix(shard)}s:queued"
    await bench.look.zadd(index, {"ghost": 1})
    assert await browse(bench, 10, state="queued") == []
    assert await bench.look.zcard(index) == 1
    await bench.look.zrem(index, "ghost")


async def test_a_file_is_what_a_claim_would_give(bench: Bench) -> None:
    """Plan, request, journal and interrupts; and the run stays as it was."""
    claim = await bench.paused(run_id="waits", tenant="acme")
    file = await bench(commands.run_file(bench.keys, "waits"))
    would = file.claim
    assert (would.plan, would.plan_id, would.request, would.queue) == (
        claim.plan,
        claim.plan_id,
        claim.request,
        claim.queue,
    )
    assert (file.state, would.tenant, [each.id for each in file.interrupts]) == ("paused", "acme", ["approval:c1"])
    assert (await bench.status("waits")).state == "paused"
    with pytest.raises(UnknownRun):
        await bench(commands.run_file(bench.keys, "nobody"))


@pytest.mark.parametrize("name", ["browse", "file", "announced"])
def test_the_server_itself_refuses_that_they_write(name: str) -> None:
    """They are declared so, and a server of 7.0 or later holds a script to it."""
    assert "flags=no-writes" in script(name).texts["flagged"].splitlines()[0]
