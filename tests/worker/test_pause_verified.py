"""The round trip of a pause is verified when the pause is written, not when a person answers (DESIGN 4)."""

from typing import Any

import pytest
from worker.conftest import Shop

from turnfleet.store import commands
from turnfleet_kernel import PlanSpec
from turnfleet_kernel.testing import ScriptedModel, call
from turnfleet_worker import journal


@pytest.fixture
def asking(shop: Shop) -> Shop:
    """Give a fleet whose one tool waits for a person, in its second round."""
    shop.registry.model("m", ScriptedModel([call("look"), call("act", order="1"), "over"]))

    @shop.registry.tool(approval=True)
    def act(order: str) -> str:
        """Do something."""
        return order

    @shop.registry.tool
    def look() -> str:
        """Look at something."""
        return "seen"

    return shop


async def test_a_journal_that_does_not_lead_back_fails_the_run_today(
    asking: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault between what is written and what was meant is found at the pause, and the error says what differs."""
    honest = journal.receipt

    def forgetful(outcome: Any) -> journal.Entry:
        entry = honest(outcome)
        entry["outcome"]["value"] = "something else"
        return entry

    monkeypatch.setattr(journal, "receipt", forgetful)
    await asking.enqueue(PlanSpec(name="p", model="m", tools=("act", "look")))
    left = await asking.work()
    assert left.state == "failed"
    status = await asking.executor.execute(commands.status(asking.keys, "run"))
    assert (status.error or "").startswith("PauseRecordError: run run was not paused")
    assert "transcript" in (status.error or "")
    events = await asking.events()
    assert [event["kind"] for event in events if event["kind"] in {"approval", "error"}] == ["error"]


async def test_an_honest_journal_pauses(asking: Shop) -> None:
    """The same run without the fault waits for its person, and goes on."""
    await asking.enqueue(PlanSpec(name="p", model="m", tools=("act", "look")))
    assert (await asking.work()).state == "paused"
    await asking.decide(first={"kind": "approve"})
    assert (await asking.work()).state == "completed"
