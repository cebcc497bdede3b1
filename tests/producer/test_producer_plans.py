"""A plan that nobody can run is refused at once, if that can be known (DESIGN 5, IPL-3)."""

import pytest
from producer.kit import PLAN, AnyFleet, Stage, do

from turnfleet import InvalidEnvelope, PlanRejected, PlanSpec, StageSpec
from turnfleet.client.capabilities import Capabilities
from turnfleet.client.steps import Execute

PICKY = PlanSpec(
    name="picky",
    model={"fast": "small", "deep": "huge"},
    tools=("refund", "lookup"),
    stages=(StageSpec(name="audit"),),
    delegates=("researcher",),
)


async def test_one_error_lists_every_unknown_name_and_what_there_is(fleet: AnyFleet, stage: Stage) -> None:
    """Models, tools, stages and delegates; nothing is recorded."""
    stage.announce(models=["small"], tools=["refund", "ask"], stages=[], delegates=["writer"])
    with pytest.raises(PlanRejected) as refused:
        await do(fleet.enqueue, PICKY, "hi", run_id="run-1")
    assert refused.value.unknown == {
        "model": ("huge",),
        "tool": ("lookup",),
        "stage": ("audit",),
        "delegate": ("researcher",),
    }
    assert refused.value.known["tool"] == ("ask", "refund")
    for name in ("'huge'", "'lookup'", "'audit'", "'researcher'", "small", "ask, refund", "writer"):
        assert name in str(refused.value)
    assert stage.dump("run-1")["record"] == {}
    with pytest.raises(PlanRejected):
        await do(fleet.enqueue_many, [(PICKY, "hi")])
    assert stage.messages() == []


async def test_names_may_come_from_several_workers(fleet: AnyFleet, stage: Stage) -> None:
    """Only a name that NO live worker has is refused here; whether one has all of them is the workers' to settle."""
    stage.announce(models=["small", "huge"], tools=["refund"])
    stage.announce_as("worker-2", tools=["lookup"], stages=["audit"], delegates=["researcher"])
    run = await do(fleet.enqueue, PICKY, "hi")
    assert stage.published() == [run.run_id]


async def test_without_live_workers_the_run_waits(fleet: AnyFleet, stage: Stage) -> None:
    """Nothing is known, so nothing is refused."""
    run = await do(fleet.enqueue, PICKY, "hi")
    assert stage.published() == [run.run_id]


async def test_a_plan_may_be_plain_json(fleet: AnyFleet, stage: Stage) -> None:
    """A mapping is read as a PlanSpec and has the same plan id."""
    first = await do(fleet.enqueue, PLAN, "hi")
    second = await do(fleet.enqueue, {"name": "support", "model": "small"}, "hi")
    assert (await do(first.status)).plan_id == (await do(second.status)).plan_id


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        ({"name": "x"}, "model: Field required"),
        ({"name": "x", "model": "m", "color": "red"}, "color"),
        ({"name": "x", "model": "m", "limits": {"max_model_rounds": 0}}, "max_model_rounds"),
    ],
)
async def test_a_plan_that_is_none_is_refused(fleet: AnyFleet, plan: dict[str, object], says: str) -> None:
    """The error names each field (IPL-7)."""
    with pytest.raises(InvalidEnvelope, match=says):
        await do(fleet.enqueue, plan, "hi")


def test_workers_are_asked_at_most_once_a_second(stage: Stage) -> None:
    """The answer is kept that long: a burst of enqueues costs one look."""
    capabilities = Capabilities()
    asking = capabilities.get(stage.keys)
    assert isinstance(next(asking), Execute)
    with pytest.raises(StopIteration) as answered:
        asking.send(({"models": ["small"]},))
    with pytest.raises(StopIteration) as kept:
        next(capabilities.get(stage.keys))
    assert answered.value.value == kept.value.value == ({"models": ["small"]},)
