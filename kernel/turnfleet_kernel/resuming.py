"""Going on from a record: three replay ports and a seeded context, no branch in the loop (HK-4)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from turnfleet_kernel.context import RequestContext
from turnfleet_kernel.contracts.decisions import check_decision
from turnfleet_kernel.contracts.frozen import FrozenDict, thaw
from turnfleet_kernel.contracts.interrupts import (
    Answer,
    Approve,
    Decided,
    Decision,
    Edit,
    Interrupt,
    InvocationPaused,
    Reject,
)
from turnfleet_kernel.contracts.record import PauseRecord
from turnfleet_kernel.contracts.values import (
    Delta,
    ModelTurn,
    PromptAssembly,
    RunIdentity,
    ToolOutcome,
    ToolRequest,
    TurnRequest,
)
from turnfleet_kernel.errors import InvalidDecision
from turnfleet_kernel.plan import InvocationPlan, ModelPalette
from turnfleet_kernel.ports import ConversationPort, ModelPort, ModelRound, ToolPort, Transcript
from turnfleet_kernel.wrapping import ConversationAround, ToolsAround

__all__ = ["ReplayConversation", "ReplayModel", "ReplayTools", "child_interrupt_id", "resume"]


def resume(
    plan: InvocationPlan,
    record: PauseRecord,
    request: TurnRequest,
    decisions: Mapping[str, Decision] | None = None,
    *,
    identity: RunIdentity | None = None,
) -> tuple[InvocationPlan, TurnRequest, RequestContext]:
    """Prepare the next invocation of a recorded run; run the plan that comes back with the request and the context.

    Any of the open interrupts may be decided; the others pause the run again without their calls being made (HK-5).
    ``request`` is the run's own; ``identity`` places a delegated run in its tree.

    Raises:
        InvalidDecision: a decision names no open interrupt, or does not fit it (HK-6). Nothing has changed.
        ContractViolationError: the record was made with another plan.
    """
    decided = _decide(plan, record, decisions or {})
    left = tuple(interrupt for interrupt in record.interrupts if interrupt.id not in decided)
    record = record.model_copy(update={"decisions": {**record.decisions, **decided}, "interrupts": left})
    bindings = plan.bindings
    plan = replace(
        plan,
        bindings=replace(
            bindings,
            model=_replayed_model(bindings.model, record),
            tools=ReplayTools(bindings.tools, record),
            conversation=ReplayConversation(bindings.conversation, record),
        ),
    )
    known = FrozenDict({interrupt_id: each.decision for interrupt_id, each in record.decisions.items()})
    request = replace(request, run_id=record.run_id, decisions=known)
    return plan, request, RequestContext(plan, restored=record, identity=identity)


def child_interrupt_id(run_id: str, interrupt_id: str) -> str:
    """Name a delegated run's interrupt in its parent (HK-5)."""
    return f"{run_id}:{interrupt_id}"


def _decide(plan: InvocationPlan, record: PauseRecord, decisions: Mapping[str, Decision]) -> dict[str, Decided]:
    waiting = {interrupt.id: interrupt for interrupt in record.interrupts}
    unknown = sorted(decisions.keys() - waiting.keys())
    if unknown:
        has = ", ".join(waiting) or "nothing"
        msg = f"run {record.run_id} does not wait for {', '.join(map(repr, unknown))}; it waits for {has}"
        raise InvalidDecision(msg)
    for interrupt_id, decision in decisions.items():
        interrupt = waiting[interrupt_id]
        of_child = interrupt.call_id in record.children
        check_decision(interrupt, decision, schema=None if of_child else _tool_schema(plan, interrupt))
    return {interrupt_id: Decided(waiting[interrupt_id], decision) for interrupt_id, decision in decisions.items()}


def _tool_schema(plan: InvocationPlan, interrupt: Interrupt) -> Mapping[str, Any] | None:
    tool = interrupt.payload.get("tool")
    if interrupt.kind == "question" or not isinstance(tool, str):
        return None
    return plan.bindings.tools.schema(tool)


class ReplayModel:
    """Gives the recorded turn first, without asking the provider, then is the model itself."""

    def __init__(self, inner: ModelPort, turn: ModelTurn) -> None:
        """Give this turn first."""
        self._inner = inner.inner if isinstance(inner, ReplayModel) else inner
        self._turn: ModelTurn | None = turn

    @property
    def inner(self) -> ModelPort:
        """The model itself."""
        return self._inner

    async def invoke(self, transcript: Transcript) -> ModelTurn:
        """Give the recorded turn, once."""
        turn, self._turn = self._turn, None
        return await self._inner.invoke(transcript) if turn is None else turn

    def stream(self, transcript: Transcript) -> ModelRound:
        """Give the recorded turn, once."""
        turn, self._turn = self._turn, None
        return self._inner.stream(transcript) if turn is None else _ReplayedRound(turn)


class _ReplayedRound:
    def __init__(self, turn: ModelTurn) -> None:
        self._turn = turn

    async def deltas(self) -> AsyncIterator[Delta]:
        for delta in self._turn.shown or ():
            yield delta

    def result(self) -> ModelTurn:
        return self._turn


def _replayed_model(model: ModelPort | ModelPalette, record: PauseRecord) -> ModelPort | ModelPalette:
    if record.turn is None:
        return model
    turn = replace(record.turn, shown=record.shown)
    if not isinstance(model, ModelPalette):
        return ReplayModel(model, turn)
    return replace(model, models={name: ReplayModel(each, turn) for name, each in model.models.items()})


class ReplayConversation(ConversationAround):
    """Opens the recorded transcript in place of a new one; closed rounds are in it already."""

    def __init__(self, inner: ConversationPort, record: PauseRecord) -> None:
        """Open what was recorded."""
        super().__init__(inner.inner if isinstance(inner, ReplayConversation) else inner)
        self._recorded = record.transcript
        self._answered = record.answered

    @property
    def inner(self) -> ConversationPort:
        """The conversation port itself."""
        return self._inner

    def open_turn(self, assembly: PromptAssembly) -> Transcript:
        """Load the recorded transcript; a run that had none opens its first."""
        return self._inner.open_turn(assembly) if self._recorded is None else self._inner.load(self._recorded)

    def close_round(
        self,
        transcript: Transcript,
        turn: ModelTurn,
        requests: Sequence[ToolRequest],
        outcomes: Sequence[ToolOutcome],
    ) -> None:
        """Close a round; an answer that stood in the recorded transcript is closed already."""
        if not self._answered:
            self._inner.close_round(transcript, turn, requests, outcomes)
        self._answered = False


class ReplayTools(ToolsAround):
    """Gives back by call id what is known or decided; makes the calls that are left (HK-4)."""

    def __init__(self, inner: ToolPort, record: PauseRecord) -> None:
        """Replay the record's open round."""
        super().__init__(inner.inner if isinstance(inner, ReplayTools) else inner)
        self._outcomes = record.outcomes
        self._children = record.children
        self._recorded = {request.call_id: request for request in record.turn.tool_requests} if record.turn else {}
        self._open: dict[str | None, list[Interrupt]] = {}
        self._decided: dict[str | None, list[Decided]] = {}
        for interrupt in record.interrupts:
            self._open.setdefault(interrupt.call_id, []).append(interrupt)
        for decided in record.decisions.values():
            self._decided.setdefault(decided.interrupt.call_id, []).append(decided)

    @property
    def inner(self) -> ToolPort:
        """The tool port itself."""
        return self._inner

    async def call(self, request: ToolRequest) -> ToolOutcome:
        """Give what is known, wait for what is open, make the call that is free to be made."""
        known = self._outcomes.get(str(request.call_id))
        if known is not None:
            return known
        waiting = self._open.get(request.call_id)
        decided = self._decided.get(request.call_id, [])
        if waiting and not self._child_may_go_on(request, decided):
            raise InvocationPaused(*waiting)
        if str(request.call_id) not in self._children:
            for each in decided:
                outcome = _outcome_of(request, each)
                if outcome is not None:
                    return outcome
                request = self._edited(request, each)
        return await self._inner.call(request)

    def _child_may_go_on(self, request: ToolRequest, decided: list[Decided]) -> bool:
        """Tell whether any of what a delegated run waits for has been decided: it keeps the rest waiting itself."""
        child = self._children.get(str(request.call_id))
        if child is None:
            return False
        open_ids = {child_interrupt_id(child.run_id, interrupt.id) for interrupt in child.interrupts}
        return any(each.interrupt.id in open_ids for each in decided)

    def _edited(self, request: ToolRequest, decided: Decided) -> ToolRequest:
        """Apply an edit that no stage has applied: the request still has the arguments that the person was shown."""
        decision, recorded = decided.decision, self._recorded.get(request.call_id)
        if not isinstance(decision, Edit) or recorded is None:
            return request
        shown = decided.interrupt.payload.get("arguments", recorded.arguments)
        return replace(request, arguments=decision.arguments) if thaw(request.arguments) == thaw(shown) else request


def _outcome_of(request: ToolRequest, decided: Decided) -> ToolOutcome | None:
    """Give the outcome that a decision is, None where it means that the call is to be made."""
    call_id = str(request.call_id)
    match decided.decision:
        case Reject(reason=reason):
            error = f"rejected by a person: {reason}" if reason else "rejected by a person"
            return ToolOutcome(call_id, request.name, error=error)
        case Answer(value=value):
            return ToolOutcome(call_id, request.name, value)
        case Approve(value=value) if decided.interrupt.kind == "in_doubt":
            return ToolOutcome(call_id, request.name, value)
        case _:
            return None
