"""The result of a run: its outcome, or what became of it instead."""

import asyncio
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest
from producer.kit import APPROVAL, PLAN, QUESTION, AnyFleet, Stage, do
from pydantic import BaseModel
from support.waiting import eventually

from turnfleet import (
    PlanSpec,
    RunCancelled,
    RunError,
    RunExpired,
    RunFailed,
    RunPaused,
    UnknownRun,
    UsageDelta,
)
from turnfleet.store import commands
from turnfleet.store.records import SweepPolicy


class Invoice(BaseModel):
    """What the tests' plans ask for."""

    number: int
    due: date


async def test_a_completed_run_gives_its_outcome(fleet: AnyFleet, stage: Stage) -> None:
    """Who asks after the end gets it at once (EVT-6)."""
    run = await do(fleet.enqueue, PLAN, "hi")
    stage.completes(stage.claim(run.run_id), text="hello")
    outcome = await do(run.result)
    assert (outcome.text, outcome.run_id, outcome.usage) == ("hello", run.run_id, UsageDelta(input_tokens=3))


async def test_the_result_is_waited_for_by_listening(
    fleet: AnyFleet, another: Callable[..., AnyFleet], stage: Stage
) -> None:
    """Who asks first waits on the channel, and is told long before the next look at the log."""
    run = await do(fleet.enqueue, PLAN, "hi")
    waiting = asyncio.ensure_future(do(another(poll_interval=3600).run(run.run_id).result))
    await asyncio.to_thread(eventually, lambda: stage.subscribers(run.run_id) == 1)
    claim = stage.claim(run.run_id)
    stage.says(claim, "a")
    stage.completes(claim)
    assert (await asyncio.wait_for(waiting, 60)).text == "hello"
    await asyncio.to_thread(eventually, lambda: stage.subscribers(run.run_id) == 0)


async def test_a_paused_run_raises_its_open_interrupts(fleet: AnyFleet, stage: Stage) -> None:
    """Waiting for a person is not waiting for a result (HK-1)."""
    run = await do(fleet.enqueue, PLAN, "hi")
    waiting = asyncio.ensure_future(do(run.result))
    stage.pauses(stage.claim(run.run_id), APPROVAL, QUESTION)
    with pytest.raises(RunPaused) as paused:
        await waiting
    assert [(each.id, each.tool, each.question) for each in paused.value.interrupts] == [
        ("approval:c1", "refund", None),
        ("question:c2", None, "Which colour?"),
    ]


async def test_a_failed_run_raises_its_error(fleet: AnyFleet, stage: Stage) -> None:
    """The text is the error event's (EVT-7)."""
    run = await do(fleet.enqueue, PLAN, "hi")
    stage.fails(stage.claim(run.run_id), "ValueError: no such order")
    with pytest.raises(RunFailed, match="ValueError: no such order"):
        await do(run.result)


async def test_a_cancelled_run_raises_the_reason(fleet: AnyFleet) -> None:
    """The reason is what `cancel` was given."""
    run = await do(fleet.enqueue, PLAN, "hi")
    assert await do(run.cancel, "changed my mind") is True
    with pytest.raises(RunCancelled, match="changed my mind"):
        await do(run.result)


async def test_an_expired_run_raises(fleet: AnyFleet, stage: Stage) -> None:
    """A life that is over before anybody claimed the run."""
    run = await do(fleet.enqueue, PLAN, "hi", expires=0)
    stage.executor.execute(commands.sweep(stage.keys, stage.keys.shard(run.run_id), SweepPolicy()))
    with pytest.raises(RunExpired, match=run.run_id):
        await do(run.result)


async def test_timeout_names_the_run_and_its_state(fleet: AnyFleet) -> None:
    """The run goes on; only the waiting ends."""
    run = await do(fleet.enqueue, PLAN, "hi")
    with pytest.raises(TimeoutError, match=rf"{run.run_id}.*queued"):
        await do(run.result, timeout=0.1)
    assert (await do(run.status)).state == "queued"


async def test_an_unknown_run_has_no_result(fleet: AnyFleet) -> None:
    """The error says why that may be."""
    with pytest.raises(UnknownRun, match="retention"):
        await do(fleet.run("nobody").result)


async def test_output_asks_the_plan_for_the_types_schema_and_reads_it_back(fleet: AnyFleet, stage: Stage) -> None:
    """JSON goes over the wire; the caller gets an Invoice."""
    run = await do(fleet.enqueue, PLAN, "hi", output=Invoice)
    claim = stage.claim(run.run_id)
    assert claim.plan["response"] == Invoice.model_json_schema()
    stage.completes(claim, output={"number": 7, "due": "2030-01-02"})
    outcome: Any = await do(run.result)
    assert outcome.output == Invoice(number=7, due=date(2030, 1, 2))


async def test_a_plans_own_response_schema_stays(fleet: AnyFleet, stage: Stage) -> None:
    """What the plan says goes before what the type would ask for."""
    plan = PlanSpec(name="own", model="small", response={"type": "object"})
    run = await do(fleet.enqueue, plan, "hi", output=Invoice)
    assert stage.claim(run.run_id).plan["response"] == {"type": "object"}


async def test_a_handle_made_elsewhere_may_name_the_type_too(fleet: AnyFleet, stage: Stage) -> None:
    """`fleet.run(id, output=...)` reads what another process enqueued."""
    run = await do(fleet.enqueue, PLAN, "hi", output=dict[str, int])
    stage.completes(stage.claim(run.run_id), output={"a": 1})
    assert (await do(fleet.run(run.run_id, output=dict[str, int]).result)).output == {"a": 1}


async def test_an_output_that_does_not_fit_is_an_error_without_the_output(fleet: AnyFleet, stage: Stage) -> None:
    """It says the place and the rule, and how to see the output."""
    run = await do(fleet.enqueue, PLAN, "hi", output=Invoice)
    stage.completes(stage.claim(run.run_id), output={"number": "secret"})
    with pytest.raises(RunError, match="no Invoice: number") as unfit:
        await do(run.result)
    assert "secret" not in str(unfit.value)
    assert (await do(fleet.run(run.run_id).result)).output == {"number": "secret"}
