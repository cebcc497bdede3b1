"""How a shard stands as a whole: what a diagnosis asks for."""

from store.kit import Bench

from turnfleet.store import commands
from turnfleet.store.commands.survey import Survey, merge_surveys


async def surveyed(bench: Bench, **options: int) -> Survey:
    """Return the survey of all shards."""
    given = {"late_ms": 0} | options
    shards = range(bench.keys.shards)
    return merge_surveys([await bench(commands.survey(bench.keys, shard, **given)) for shard in shards])


async def test_runs_are_counted_by_state_and_the_oldest_come_first(bench: Bench) -> None:
    """All shards together; nothing is changed by looking."""
    for name in ("q1", "q2"):
        await bench.create(name)
    await bench.paused(run_id="p1")
    held = await bench.running("k1")
    await bench(commands.park(bench.keys, held, missing={"tool": ["fly"]}, text="no fly", ttl_ms=60_000))
    await bench.running("r1")
    before = await bench.dump()
    survey = await surveyed(bench, late_ms=60_000)
    assert before == await bench.dump()
    assert {state: count for state, count in survey.counts.items() if count} == {
        "queued": 2, "paused": 1, "parked": 1, "running": 1,
    }  # fmt: skip
    assert [each.run.run_id for each in survey.queued] == ["q1", "q2"]
    assert [(each.run.run_id, each.run.missing) for each in survey.parked] == [("k1", {"tool": ("fly",)})]
    assert [each.run.interrupts[0].kind for each in survey.waiting] == ["approval"]
    assert (survey.overdue_count, survey.overdue, survey.failed) == (0, (), ())


async def test_a_lease_that_ended_is_overdue_until_somebody_looks(bench: Bench) -> None:
    """Its index says since when; the limit bounds each shard's list and not the count."""
    for number in range(9):
        await bench.running(f"r{number}", lease_ms=0)
    survey = await surveyed(bench)
    assert sorted(each.run.run_id for each in survey.overdue) == [f"r{number}" for number in range(9)]
    assert all(each.at_ms <= survey.now_ms and each.run.worker == "w1" for each in survey.overdue)
    few = await surveyed(bench, limit=1)
    assert few.overdue_count == 9
    assert len(few.overdue) == len({bench.keys.shard(f"r{number}") for number in range(9)})


async def test_a_failed_run_is_told_with_its_error(bench: Bench) -> None:
    """What was lost with its workers is found by what its error says."""
    await bench.failed("f1")
    (failed,) = (await surveyed(bench)).failed
    assert (failed.run.state, failed.run.error) == ("failed", "ValueError: no")
