"""Everything that belongs to one invocation, and nothing that outlives it (RCX)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Sequence
from datetime import datetime
from typing import Any, TypeVar

from turnfleet_kernel.calls import ToolCall
from turnfleet_kernel.contracts.frozen import ResolvedInputs
from turnfleet_kernel.contracts.interrupts import Interrupt
from turnfleet_kernel.contracts.record import PauseRecord
from turnfleet_kernel.contracts.stages import StageTrace
from turnfleet_kernel.contracts.values import (
    NO_USAGE,
    InvocationOutcome,
    ModelTurn,
    RunIdentity,
    ToolOutcome,
    ToolRequest,
    UsageDelta,
)
from turnfleet_kernel.emitter import Emitter
from turnfleet_kernel.errors import ContractViolationError
from turnfleet_kernel.identity import Ambient, current_ambient, identify
from turnfleet_kernel.lifecycle import RunLifecycle
from turnfleet_kernel.plan import InvocationPlan
from turnfleet_kernel.ports import Transcript
from turnfleet_kernel.rounds import OpenRound
from turnfleet_kernel.teardown import TeardownReport
from turnfleet_kernel.waiting import WaitingList

__all__ = ["RequestContext"]

T = TypeVar("T")


class RequestContext:
    """The state of one invocation (RCX-1): made for it, written by the kernel alone, refused for a second one.

    Each slot has one writer (RCX-2): this class by way of its operations, but for ``transcript`` (the phases),
    ``model_name`` (the palette) and ``cancelled`` (the runner, when the end is known).

    Everything may be read while the run is alive; of use to port wrappers are ``identity``, ``resolved``,
    ``model_name`` (the palette's choice), ``round`` (the open round), ``transcript`` and ``next_index``. After the
    run ``report`` tells how it ended, and ``usage``, ``text``, ``messages``, ``tool_outcomes``, ``stop_reason`` and
    ``duration_ms`` (milliseconds) what it gave.
    """

    __slots__ = (
        "__weakref__",
        "_generation",
        "_output",
        "_record",
        "_resolved",
        "_scratch",
        "_tool_outcomes",
        "_waiting",
        "above",
        "answer_round",
        "call_ids",
        "cancelled",
        "duration_ms",
        "emitter",
        "identity",
        "interrupts",
        "lifecycle",
        "max_depth",
        "messages",
        "model_name",
        "plan",
        "round",
        "rounds",
        "run_id",
        "started",
        "stop_reason",
        "text",
        "traces",
        "transcript",
        "usage",
        "usage_limits",
    )

    def __init__(
        self,
        plan: InvocationPlan,
        *,
        run_id: str | None = None,
        restored: PauseRecord | None = None,
        identity: RunIdentity | None = None,
    ) -> None:
        """Prepare an invocation of a plan.

        ``restored`` continues a recorded run: its id, event index, call ids and accumulators (HK-4). ``identity``
        places a delegated run in its tree (DEL-1).

        Raises:
            ContractViolationError: the arguments name different runs, or a record of another plan.
        """
        clock = plan.bindings.clock
        self.plan = plan
        self.identity = identify(plan.identity.plan_id, plan.bindings.ids, run_id, restored, identity)
        self.run_id = self.identity.run_id
        self.started: datetime = clock.now()
        around = current_ambient() if self.identity.parent_run_id is not None else None
        self.max_depth = plan.limits.max_depth if around is None else around.max_depth
        self.above: ToolCall | None = None if around is None else around.call
        ran = 0.0 if restored is None else restored.ran_seconds
        ambient = Ambient(self.identity, self.max_depth)
        self.lifecycle = RunLifecycle(clock, plan.limits, ambient, ran_seconds=ran)
        self.usage: UsageDelta = NO_USAGE
        self.text = ""
        self.usage_limits = plan.limits.usage_limits
        self.messages: tuple[Any, ...] = ()
        self.stop_reason: str | None = None
        self.cancelled = False
        self.duration_ms = 0.0
        self.transcript: Transcript = None
        self.round: OpenRound | None = None
        self.answer_round: OpenRound | None = None
        """The round without calls, once it is closed: what comes after it is the end."""
        self.rounds = 0
        self.model_name: str | None = None
        self.call_ids: dict[str, None] = {}
        self.interrupts: tuple[Interrupt, ...] = ()
        """What the run waits for; going on, what was left open, until its round is closed."""
        self.emitter = Emitter(self.run_id, clock)
        self._output: Any = None
        self._generation: str | None = None
        self._resolved: ResolvedInputs | None = None
        self._record = restored
        self._tool_outcomes: list[ToolOutcome] = []
        self.traces: deque[StageTrace] = deque()
        """Of stages that ended, until they become events (STG-1)."""
        self._scratch: dict[str, dict[str, Any]] = {}
        self._waiting = WaitingList()
        if restored is not None:
            self._restore(restored)

    def _restore(self, record: PauseRecord) -> None:
        self.usage = record.usage
        self.text = record.text
        self.rounds = record.rounds
        self.model_name = record.model
        self.call_ids.update(dict.fromkeys(record.call_ids))
        self.emitter.next_index = record.next_index
        self._tool_outcomes.extend(record.tool_outcomes)
        self.interrupts = record.interrupts
        self._waiting = WaitingList(record.interrupts, record.interrupt_ids)

    # -- what is bound once

    @property
    def generation(self) -> str | None:
        """The plan id that this invocation is bound to, None before (RCX-5)."""
        return self._generation

    def bind_generation(self, generation: str) -> None:
        """Begin the invocation; an invocation sees one plan, whatever is deployed under it (RCX-3, RCX-5).

        Raises:
            ContractViolationError: the context has begun or ended an invocation already.
        """
        if self._generation is not None or self.lifecycle.closed:
            msg = f"the context of run {self.run_id} has been used for an invocation already; make a new one"
            raise ContractViolationError(msg)
        self._generation = generation
        self.lifecycle.begin()

    @property
    def resolved(self) -> ResolvedInputs | None:
        """What RESOLVE stages published, None until it is bound (STG-8)."""
        return self._resolved

    def bind_resolved(self, resolved: ResolvedInputs) -> None:
        """Bind the resolved inputs (RCX-6).

        Raises:
            ContractViolationError: they are bound already.
        """
        if self._resolved is not None:
            raise ContractViolationError(f"the resolved inputs of run {self.run_id} are bound already")
        self._resolved = resolved

    def resolved_input(self, key: str) -> Any:
        """Give one resolved input, None where nobody published it (or nothing is bound yet)."""
        return None if self._resolved is None else self._resolved.get(key)

    @property
    def restored(self) -> PauseRecord | None:
        """The record that this invocation continues, None for a run's first."""
        return self._record

    # -- accumulating

    @property
    def tool_outcomes(self) -> tuple[ToolOutcome, ...]:
        """Outcomes of all closed rounds of the run, in request order within each."""
        return tuple(self._tool_outcomes)

    @property
    def next_index(self) -> int:
        """The index that the next event will have (EVT-2)."""
        return self.emitter.next_index

    def open_round(self) -> OpenRound:
        """Begin a model round, remembering the accumulators as they are now (HK-3)."""
        opened = OpenRound(self.rounds + 1, self.usage, self.text, len(self.call_ids), len(self._tool_outcomes))
        record = self._record
        if record is not None and record.turn is not None and self.rounds == record.rounds:
            opened.replay(record)
        self.round = opened
        return opened

    def absorb(self, text: str, usage: UsageDelta, stop_reason: str | None) -> None:
        """Add an accepted turn to the run."""
        self.text += text
        self.usage += usage
        self.stop_reason = stop_reason

    @property
    def current_round(self) -> OpenRound:
        """The open round.

        Raises:
            ContractViolationError: none is open.
        """
        if self.round is None:
            raise ContractViolationError(f"run {self.run_id} has no open round")
        return self.round

    def accept_turn(self, turn: ModelTurn, requests: tuple[ToolRequest, ...]) -> None:
        """Keep the open round's turn and its requests as reserved."""
        self.current_round.turn = turn
        self.current_round.requests = requests

    def reserve(self, request: ToolRequest) -> ToolRequest:
        """Give a request a call id that is unique within the run (RES-3)."""
        call_id = self.reserve_call_id(request.call_id)
        return request if call_id == request.call_id else ToolRequest(call_id, request.name, request.arguments)

    def reserve_call_id(self, proposed: str | None) -> str:
        """Keep the proposed id where it is present and unused, else give a fresh one (RES-3)."""
        call_id = proposed
        while not call_id or call_id in self.call_ids:
            call_id = self.plan.bindings.ids.new()
        self.call_ids[call_id] = None
        return call_id

    def close_round(self, outcomes: Sequence[ToolOutcome]) -> None:
        """Count the round and what its calls gave and spent."""
        for outcome in outcomes:
            if outcome.usage is not NO_USAGE:
                self.usage += outcome.usage
        self._tool_outcomes.extend(outcomes)
        self.rounds += 1
        if self.round is not None and not self.round.requests:
            self.answer_round = self.round
        self.round = None
        self.interrupts = ()

    # -- pausing

    def pause(self, raised: Sequence[Interrupt]) -> tuple[Interrupt, ...]:
        """Settle what the run waits for (HK-5); see WaitingList."""
        turn_round = self.current_round
        self.interrupts = self._waiting.settle(raised, turn_round.requests, turn_round.outcomes)
        return self.interrupts

    @property
    def interrupt_ids(self) -> tuple[str, ...]:
        """Every interrupt id used in the run so far."""
        return self._waiting.used_ids

    # -- for capabilities

    def scratch(self, namespace: str) -> dict[str, Any]:
        """Give the notes of one capability, its own in this invocation (RCX-7)."""
        return self._scratch.setdefault(namespace, {})

    def spawn(
        self, work: Coroutine[Any, Any, T], *, owner: str, purpose: str, deadline_seconds: float | None = None
    ) -> asyncio.Task[T]:
        """Run background work that ends with the run (RCX-8); see RunLifecycle.spawn."""
        return self.lifecycle.spawn(work, owner=owner, purpose=purpose, deadline_seconds=deadline_seconds)

    # -- the end

    def finish(self, output: Any, messages: tuple[Any, ...], stop_reason: str | None) -> None:
        """Keep what the finish phase found."""
        self._output = output
        self.messages = messages
        self.stop_reason = stop_reason

    def outcome(self) -> InvocationOutcome[Any]:
        """Give what the run has come to (EVT-6)."""
        return InvocationOutcome(
            self.text,
            self._output,
            self.messages,
            self.tool_outcomes,
            self.usage,
            self.run_id,
            self.duration_ms,
            self.stop_reason,
        )

    def refresh_duration(self) -> float:
        """Measure the running time of this invocation again, in milliseconds (STG-5)."""
        self.duration_ms = self.lifecycle.running_seconds * 1000
        return self.duration_ms

    @property
    def report(self) -> TeardownReport | None:
        """How the invocation ended, None while it has not (RCX-11)."""
        return self.lifecycle.report

    async def teardown(self, reason: str) -> TeardownReport:
        """End the invocation, once; asked again, the same report (RCX-11)."""
        return await self.lifecycle.teardown(reason)
