"""A fleet whose agent has a helper to delegate to, and what is known of a tree of runs."""

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

from worker.conftest import Shop

from turnfleet.store import commands
from turnfleet.store.records import NewDecision
from turnfleet_kernel import ModelTurn, PlanSpec, ToolRequest, UsageDelta
from turnfleet_kernel.testing import ScriptedModel
from turnfleet_worker import Registry, ToolContext

PARENT = PlanSpec(name="parent", model="parent", delegates=("helper",))
HELPER = PlanSpec(name="helper", model="helper", tools=("act", "look", "ask"))


def turn(text: str, **calls: tuple[str, dict[str, Any]]) -> ModelTurn:
    """Give a turn with these calls: id, then name and arguments."""
    requests = tuple(ToolRequest(call_id, *what) for call_id, what in calls.items())
    return ModelTurn(text, UsageDelta(5, 1, 1), "tool_calls" if calls else "end", requests)


def helped(*call_ids: str) -> ModelTurn:
    """Give a turn that hands a task to the helper, once for each call id."""
    return turn("delegating ", **{call_id: ("helper", {"prompt": call_id}) for call_id in call_ids})


TWO_ROUNDS = (
    turn("one ", a1=("act", {"what": "x"}), l1=("look", {"what": "y"})),
    turn("two ", a2=("act", {"what": "z"})),
    turn("helped"),
)


class Office:
    """A fleet with a helper to delegate to. `staff` gives the inside of another worker process of it."""

    def __init__(self, *, parent: tuple[Any, ...], helper: tuple[Any, ...], **options: Any) -> None:
        self.made: Counter[str] = Counter()
        """Effects, by the run that made them and the call id."""
        self.bought: Counter[tuple[str, int]] = Counter()
        """Turns asked for, by the model and its round."""
        self.begun = asyncio.Event()
        self.hold: asyncio.Event | None = None
        self._scripts = {"parent": parent, "helper": helper} | options.pop("models", {})
        self._more: dict[str, PlanSpec] = options.pop("delegates", {})
        self._helper: PlanSpec = options.pop("plan", HELPER)
        self._idempotent: bool = options.pop("idempotent", True)
        self._approval: bool = options.pop("approval", False)

    def staff(self, shop: Shop) -> Shop:
        """Give the inside of a worker."""
        registry = Registry()
        for name, script in self._scripts.items():
            registry.model(name, Counting(name, script, self.bought))

        @registry.tool(idempotent=self._idempotent, approval=self._approval)
        async def act(context: ToolContext, what: str) -> str:
            """Do something."""
            self.made[f"{context.run_id}/{context.call_id}"] += 1
            self.begun.set()
            if self.hold is not None:
                await self.hold.wait()
            return f"did {what}"

        @registry.tool(idempotent=True)
        async def look(what: str) -> str:
            """Look at something."""
            return f"saw {what}"

        registry.delegate("helper", self._helper)
        for name, plan in self._more.items():
            registry.delegate(name, plan)
        return replace(shop, registry=registry)


class Counting(ScriptedModel):
    """A scripted model that counts what is bought, over all the workers of a test."""

    def __init__(self, name: str, script: Any, bought: Counter[tuple[str, int]]) -> None:
        super().__init__(script)
        self._name = name
        self._bought = bought

    def _place(self, transcript: Any) -> int:
        place = super()._place(transcript)
        self._bought[self._name, place] += 1
        return place


def of_children(events: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Give the events that delegated runs had, by run; each run's indexes follow each other (EVT-2)."""
    runs: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        if event["kind"] == "child":
            runs.setdefault(event["event"]["run_id"], []).append(event["event"])
    for had in runs.values():
        assert list(range(len(had))) == [event["index"] for event in had]
    return runs


def that_count(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out what a rewind took back."""
    kept: list[dict[str, Any]] = []
    for event in events:
        if event["kind"] == "rewind":
            kept = [each for each in kept if each["index"] < event["to_index"]]
        else:
            kept.append(event)
    return kept


def said(events: list[dict[str, Any]]) -> str:
    """Give the text that readers are left with."""
    return "".join(event["text"] for event in that_count(events) if event["kind"] == "text_delta")


async def decide(shop: Shop, decision: dict[str, Any]) -> tuple[str, ...]:
    """Decide all open interrupts of the run alike; gives their ids."""
    status = await shop.executor.execute(commands.status(shop.keys, "run"))
    waiting = tuple(each.id for each in status.interrupts if each.open)
    taken = [NewDecision(name, decision) for name in waiting]
    await shop.executor.execute(commands.resume(shop.keys, "run", decisions=taken, by="alice"))
    return waiting


async def journal(shop: Shop) -> tuple[dict[str, Any], ...]:
    """Give the journal of the run."""
    return tuple(await shop.executor.execute(commands.journal(shop.keys, "run")))
