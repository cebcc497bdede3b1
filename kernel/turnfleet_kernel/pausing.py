"""Writing a stopped run down (HK-3)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from turnfleet_kernel.context import RequestContext
from turnfleet_kernel.contracts.frozen import thaw
from turnfleet_kernel.contracts.interrupts import Interrupt
from turnfleet_kernel.contracts.plain import plain_json
from turnfleet_kernel.contracts.record import Made, PauseRecord
from turnfleet_kernel.contracts.values import ModelTurn, ToolOutcome, ToolRequest
from turnfleet_kernel.errors import ContractViolationError, PauseRecordError
from turnfleet_kernel.plan import InvocationPlan
from turnfleet_kernel.rounds import OpenRound

__all__ = ["record_pause"]

_STOPPED: Final = frozenset({"paused", "preempted"})


def record_pause(plan: InvocationPlan, ctx: RequestContext) -> PauseRecord:
    """Write down a run that paused, or was handed over, in plain JSON.

    Raises:
        PauseRecordError: a value in it does not survive JSON; says which one of which run.
        ContractViolationError: the run has not paused.
    """
    if ctx.lifecycle.reason not in _STOPPED:
        msg = f"run {ctx.run_id} has not paused ({ctx.lifecycle.reason or 'it is running'}); there is nothing to record"
        raise ContractViolationError(msg)
    try:
        return _record(plan, ctx)
    except PauseRecordError:
        raise
    except ValueError as problem:
        raise PauseRecordError(f"run {ctx.run_id} cannot be recorded: {problem}") from problem


def _record(plan: InvocationPlan, ctx: RequestContext) -> PauseRecord:
    before, turn_round = ctx.restored, ctx.round or ctx.answer_round
    ran_seconds, next_index = ctx.lifecycle.ran_seconds, ctx.next_index
    accepted = turn_round is not None and turn_round.turn is not None
    if before is not None and not accepted and ctx.rounds == before.rounds:
        # Handed over before it had caught up: what was recorded is still the truth.
        return before.model_copy(update={"ran_seconds": ran_seconds, "next_index": next_index})
    resolved = None if ctx.resolved is None else {key: ctx.resolved[key] for key in ctx.resolved if key != "decisions"}
    record = PauseRecord(
        run_id=ctx.run_id,
        root_run_id=ctx.identity.root_run_id,
        parent_run_id=ctx.identity.parent_run_id,
        plan_id=plan.identity.plan_id,
        transcript=_transcript(plan, ctx),
        model=ctx.model_name,
        usage=ctx.usage,
        text=ctx.text,
        call_ids=tuple(ctx.call_ids),
        rounds=ctx.rounds,
        tool_outcomes=_plain_outcomes(ctx.tool_outcomes),
        interrupts=_plain_interrupts(ctx.interrupts),
        interrupt_ids=ctx.interrupt_ids,
        resolved=plain_json(resolved, "resolved inputs"),
        ran_seconds=ran_seconds,
        next_index=next_index,
    )
    if turn_round is None or turn_round.turn is None:
        return record
    return record.model_copy(update=_open_round(ctx, turn_round, turn_round.turn))


def _open_round(ctx: RequestContext, turn_round: OpenRound, turn: ModelTurn) -> dict[str, Any]:
    """Give what the record says of the open round, and the accumulators as they were before it."""
    ids = [str(request.call_id) for request in turn_round.requests]
    known = [turn_round.outcomes[call_id] for call_id in ids if call_id in turn_round.outcomes]
    children = {}
    for call_id in ids:
        if call_id in turn_round.outcomes:
            continue
        if call_id in turn_round.stopped_children:
            children[call_id] = turn_round.stopped_children[call_id]()
        elif call_id in turn_round.children:
            children[call_id] = turn_round.children[call_id]
    return {
        "rounds": turn_round.number - 1,
        "answered": turn_round is ctx.answer_round,
        "turn": replace(
            turn,
            shown=None,
            tool_requests=_plain_requests(turn_round.requests),
            provider=plain_json(turn.provider, "what the provider keeps with the turn"),
        ),
        "outcomes": {outcome.call_id: outcome for outcome in _plain_outcomes(known)},
        "decisions": dict(turn_round.decisions),
        "children": children,
        "usage": turn_round.usage,
        "text": turn_round.text,
        "call_ids": tuple(islice(ctx.call_ids, turn_round.call_ids)),
        "made": Made(
            usage=(turn_round.number,) if turn_round.usage_made else (),
            tool_calls=tuple(call_id for call_id in ids if call_id in turn_round.calls_made),
            tool_results=tuple(call_id for call_id in ids if call_id in turn_round.results_made),
        ),
    }


def _transcript(plan: InvocationPlan, ctx: RequestContext) -> Any:
    if ctx.transcript is None:
        return None
    return plain_json(thaw(plan.bindings.conversation.dump(ctx.transcript)), "transcript")


def _plain_requests(requests: Iterable[ToolRequest]) -> tuple[ToolRequest, ...]:
    return tuple(
        replace(each, arguments=plain_json(each.arguments, f"arguments of {each.name} ({each.call_id})"))
        for each in requests
    )


def _plain_outcomes(outcomes: Iterable[ToolOutcome]) -> tuple[ToolOutcome, ...]:
    return tuple(
        replace(each, value=plain_json(each.value, f"outcome of {each.name} ({each.call_id})")) for each in outcomes
    )


def _plain_interrupts(interrupts: Iterable[Interrupt]) -> tuple[Interrupt, ...]:
    return tuple(
        replace(each, payload=plain_json(each.payload, f"payload of interrupt {each.id}")) for each in interrupts
    )
