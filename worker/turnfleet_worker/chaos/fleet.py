"""The fleet that is treated badly: a model that reads its script, and tools that write down what they do.

`celery -A turnfleet_worker.chaos.fleet worker`; the environment names the fleet (`TURNFLEET_REDIS_URL`,
`TURNFLEET_NAME`) and the ledger (`TURNFLEET_CHAOS_LEDGER`). The app is made when it is asked for.
"""

import asyncio
import ctypes
import functools
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from celery import Celery

from turnfleet_kernel import Delta, ModelTurn, ToolRequest, UsageDelta, current_run_identity
from turnfleet_kernel.contracts.interrupts import Approve, Decision, Retry
from turnfleet_worker import Registry, create_app
from turnfleet_worker.chaos.ledger import Ledger, Reply
from turnfleet_worker.chaos.workload import (
    APPROVED,
    ASKED,
    CLERK,
    CLERK_PLAN,
    DAWDLE,
    KEYED,
    MODEL,
    PLAIN,
    RECONCILED,
)
from turnfleet_worker.settings import WorkerSettings
from turnfleet_worker.toolcontext import ToolContext

LEDGER_VARIABLE: Final = "TURNFLEET_CHAOS_LEDGER"
SETTINGS: Final = WorkerSettings(
    lease_seconds=4, heartbeat_seconds=1, sweep_seconds=0.5, reoffer_after_seconds=3, drain_seconds=3,
    visibility_seconds=8,
)  # fmt: skip
"""Shorter than the defaults, so that a minute holds many recoveries."""

THINKING_SECONDS: Final = 0.05
WORD_SECONDS: Final = 0.01


class ScriptModel:
    """Plays the steps that the prompt spells out; the transcript says how far it is."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def invoke(self, transcript: Sequence[dict[str, Any]]) -> ModelTurn:
        """Return the turn of this round."""
        prompt = next(message["content"] for message in transcript if message["role"] == "user")
        number = sum(1 for message in transcript if message["role"] == "assistant")
        identity = current_run_identity()
        self._ledger.turn(identity.run_id if identity else "", number)
        await asyncio.sleep(THINKING_SECONDS)
        step = json.loads(prompt)["steps"][number]
        calls = tuple(ToolRequest(call.get("id"), call["name"], call["arguments"]) for call in step["calls"])
        return ModelTurn(
            text=step["say"],
            usage=UsageDelta(input_tokens=20, output_tokens=8, requests=1),
            stop_reason="tool_calls" if calls else "end",
            tool_requests=calls,
        )

    def stream(self, transcript: Sequence[dict[str, Any]]) -> "ScriptRound":
        """Return the same turn, to be streamed word by word."""
        return ScriptRound(self, transcript)


class ScriptRound:
    """One streamed turn."""

    def __init__(self, model: ScriptModel, transcript: Sequence[dict[str, Any]]) -> None:
        self._model = model
        self._transcript = transcript
        self._turn = ModelTurn()

    async def deltas(self) -> AsyncIterator[Delta]:
        """Give the text in words, slowly enough that a fault may come between two."""
        self._turn = await self._model.invoke(self._transcript)
        for place, word in enumerate(self._turn.text.split(" ")):
            await asyncio.sleep(WORD_SECONDS)
            yield Delta("text", word if place == 0 else f" {word}")

    def result(self) -> ModelTurn:
        """Give the whole turn."""
        return self._turn


def build_registry(ledger: Ledger) -> Registry:
    """Return the registry: one model, a payment of every kind, a tool that takes long, and a clerk to delegate to."""
    registry = Registry()
    registry.model(MODEL, ScriptModel(ledger))
    registry.delegate(CLERK, CLERK_PLAN)

    async def pay(context: ToolContext, slot: str, before: float, after: float, kind: str) -> str:
        began = time.time()
        await asyncio.sleep(before)
        ledger.effect(run=context.run_id, slot=slot, call=context.call_id, tool=context.tool, kind=kind, began=began)
        await asyncio.sleep(after)
        return slot

    @registry.tool(name=KEYED, idempotent=True)
    async def pay_keyed(slot: str, before: float, after: float, context: ToolContext) -> str:
        """Pay where the receiver knows the call id: paying again is paying once."""
        return await pay(context, slot, before, after, "keyed")

    @registry.tool(name=RECONCILED)
    async def pay_reconciled(slot: str, before: float, after: float, context: ToolContext) -> str:
        """Pay where one can ask afterwards whether it happened."""
        return await pay(context, slot, before, after, "reconciled")

    @registry.reconcile(RECONCILED)
    def look(request: ToolRequest) -> Decision:
        slot, looked = str(request.arguments["slot"]), time.time()
        made = ledger.read().made(slot)
        ledger.reply(Reply(slot, "in_doubt", "approve" if made else "retry", "reconcile", looked))
        return Approve(slot) if made else Retry()

    @registry.tool(name=ASKED)
    async def pay_asked(slot: str, before: float, after: float, context: ToolContext) -> str:
        """Pay where only a person can find out whether it happened."""
        return await pay(context, slot, before, after, "in doubt")

    @registry.tool(name=PLAIN)
    def pay_plain(slot: str, before: float, after: float, context: ToolContext) -> str:
        """Pay from a plain function, in a thread."""
        began = time.time()
        time.sleep(before)
        if context.cancelled:
            return "not paid"
        ledger.effect(run=context.run_id, slot=slot, call=context.call_id, tool=context.tool, kind="plain", began=began)
        time.sleep(after)
        return slot

    @registry.tool(name=APPROVED, approval=True)
    async def pay_approved(slot: str, before: float, after: float, context: ToolContext) -> str:
        """Pay once a person has said yes."""
        return await pay(context, slot, before, after, "approval")

    @registry.tool(name=DAWDLE, idempotent=True)
    async def dawdle(seconds: float) -> str:
        """Take longer than the run may."""
        await asyncio.sleep(seconds)
        return "at last"

    return registry


@functools.cache
def the_app() -> Celery:
    """Return this process's app, and tie the process to the one that started it."""
    _die_with_parent()
    return build_app()


def build_app(environment: Mapping[str, str] = os.environ) -> Celery:
    """Return the app of the fleet that the environment names. Raises KeyError when it names none."""
    return create_app(
        build_registry(Ledger(Path(environment[LEDGER_VARIABLE]))),
        environment["TURNFLEET_REDIS_URL"],
        name=environment["TURNFLEET_NAME"],
        settings=SETTINGS,
    )


def _die_with_parent() -> None:
    """On Linux, have the kernel kill this process when its parent dies: a frozen one hears no gentler signal."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


def __getattr__(name: str) -> Celery:
    if name in {"app", "celery"}:
        return the_app()
    raise AttributeError(name)
