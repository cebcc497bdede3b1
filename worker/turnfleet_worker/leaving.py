"""The end of a claim: the one script that the way of leaving asks for, with all that is still to be written."""

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, assert_never

from turnfleet.errors import ClaimLost
from turnfleet.store import Command, commands
from turnfleet.store.records import Claim, Ended, Ending, Offer
from turnfleet_kernel import RequestContext, record_pause
from turnfleet_kernel.contracts.events import KernelEvent
from turnfleet_kernel.contracts.json import event_to_json, outcome_to_json, usage_to_json
from turnfleet_kernel.contracts.record import PauseRecord
from turnfleet_kernel.errors import PauseRecordError, TurnfleetError
from turnfleet_kernel.plan import InvocationPlan
from turnfleet_worker.ending import Drop, Finish, Leaving, Left, Pause, Release, SetAside
from turnfleet_worker.fold import fold, round_start
from turnfleet_worker.journal import all_paused
from turnfleet_worker.past_events import events_since
from turnfleet_worker.people import stored_interrupt
from turnfleet_worker.persistence import persist
from turnfleet_worker.trust import Admitted
from turnfleet_worker.workbench import Bench
from turnfleet_worker.writer import Entry, RunWriter

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reached:
    """How far an invocation got: the plan as it ran, its context if it began, and the index of its next event."""

    plan: InvocationPlan
    context: RequestContext | None
    next_index: int


class Departure:
    """Ends the claim of one invocation, through the run's `writer`. `plan` is the run's own, `admitted` its journal."""

    def __init__(
        self,
        bench: Bench,
        claim: Claim,
        plan: InvocationPlan,
        *,
        admitted: Admitted,
        writer: RunWriter,
        reached: Reached,
    ) -> None:
        self._bench = bench
        self._claim = claim
        self._plan = plan
        self._admitted = admitted
        self._writer = writer
        self._reached = reached

    async def leave(self, leaving: Leaving) -> Left:
        """End the claim; a run whose end cannot be written is left to the holder of the next lease."""
        try:
            return await self._end(leaving)
        except ClaimLost:
            return Left("lost")
        except TurnfleetError:
            _log.exception("run %s: its end was not written; the holder of the next lease goes on", self._claim.run_id)
            return Left("lost")

    async def _end(self, leaving: Leaving) -> Left:
        match leaving:
            case Drop():
                _log.warning("run %s: this worker's claim is gone; it stops here", self._claim.run_id)
                return Left("lost")
            case Release():
                return await self._release()
            case Pause(event=event):
                return await self._pause(event)
            case Finish():
                return await self._finish(leaving)
            case SetAside(error=error):
                return Left("set aside", error=error)  # the claim is the host's to end
            case _:
                assert_never(leaving)

    async def _release(self) -> Left:
        keys, ref, ttl_ms = self._bench.keys, self._claim.ref, self._bench.ttl_ms
        answer = await self._writer.conclude(
            lambda seq, entries, events: commands.release(
                keys, ref, seq=seq, entries=entries, events=events, ttl_ms=ttl_ms
            )
        )
        return Left("queued", offer=answer) if isinstance(answer, Offer) else Left(answer.state)

    async def _pause(self, event: KernelEvent) -> Left:
        try:
            record, journal = await self._verified(event)
            stored = [
                stored_interrupt(each, self._bench.registry.policy, anew=self._admitted.must_ask(each.id))
                for each in event.interrupts
            ]
            paused = self._bench.trust.sign_pauses(self._claim.run_id, journal, all_paused(record), stored)
        except (PauseRecordError, ValueError) as error:
            _log.exception("run %s cannot be paused", self._claim.run_id)
            return await self._finish(Finish("failed", None, error), index=event.index)
        usage = usage_to_json(self._reached.context.usage) if self._reached.context else None
        keys, ref, ttl_ms = self._bench.keys, self._claim.ref, self._bench.ttl_ms
        ended = await self._writer.conclude(
            lambda seq, entries, events: commands.pause(
                keys,
                ref,
                seq=seq,
                entries=[*entries, *paused],
                events=[*events, event_to_json(event)],
                interrupts=stored,
                usage=usage,
                ttl_ms=ttl_ms,
            )
        )
        shown = tuple({"id": each.id, "kind": each.kind, "tool": each.payload.get("tool")} for each in stored)
        asked = [json.dumps(each.payload.get("arguments", each.payload.get("question"))) for each in stored]
        return Left(ended.state, offer=ended.offer, interrupts=shown, content={"asked": asked})

    async def _verified(self, event: KernelEvent) -> tuple[PauseRecord, Sequence[Entry]]:
        """Read back what the store has, fold it, and compare it with what the kernel says the run is (DESIGN 4).

        Gives the record, and the journal as it was read. Raises `PauseRecordError`: on the day of the pause, not when
        a person answers.
        """
        assert self._reached.context is not None
        record = record_pause(self._reached.plan, self._reached.context)
        await self._writer.flushed()
        executor, keys = self._bench.executor, self._bench.keys
        read = await persist(executor, commands.journal(keys, record.run_id))
        journal = self._bench.trust.admit(record.run_id, read).entries
        entries = (*journal, *all_paused(record))
        folded = fold(
            entries,
            [*await events_since(executor, keys, record.run_id, round_start(entries)), event_to_json(event)],
            conversation=self._plan.bindings.conversation,
            run_id=record.run_id,
            plan_id=record.plan_id,
            ran_seconds=record.ran_seconds,
            next_index=event.index + 1,
        )
        written, meant = folded.record.timeless().model_dump(mode="json"), record.timeless().model_dump(mode="json")
        differing = [name for name in meant if written[name] != meant[name]]
        if differing:
            raise PauseRecordError(
                f"run {record.run_id} was not paused: its journal does not lead back to where it stood "
                f"(different: {', '.join(differing)}); this is a fault in turnfleet or in a conversation port"
            )
        return record, journal

    async def _finish(self, finish: Finish, *, index: int | None = None) -> Left:
        event = event_to_json(finish.event) if finish.event is not None else self._make_end(finish, index)
        outcome = None
        if finish.state == "completed" and finish.event is not None:
            outcome = outcome_to_json(finish.event.outcome)
        ending = Ending(
            state=finish.state,
            event=event,
            outcome=outcome,
            error=event.get("error"),
            usage=usage_to_json(self._reached.context.usage) if self._reached.context else None,
        )
        keys, ref, ttl_ms = self._bench.keys, self._claim.ref, self._bench.ttl_ms

        def build(seq: int, entries: Sequence[Entry], events: Sequence[Entry]) -> Command[Ended]:
            return commands.finish(keys, ref, seq=seq, entries=entries, events=events, ending=ending, ttl_ms=ttl_ms)

        ended = await self._writer.conclude(build)
        error = finish.error or TurnfleetError(str(event.get("error"))) if ended.state == "failed" else None
        return Left(ended.state, error=error, content={"answer": outcome["text"]} if outcome else None)

    def _make_end(self, finish: Finish, index: int | None) -> dict[str, Any]:
        """Make the terminal event that the kernel could not: it did not get far enough, or its end was not kept."""
        at = index if index is not None else self._reached.next_index
        now = self._plan.bindings.clock.now().timestamp()
        event: dict[str, Any] = {"run_id": self._claim.run_id, "index": at, "time": now}
        if finish.state == "cancelled":
            return event | {"kind": "cancelled", "reason": self._claim.cancel or "cancelled"}
        error = finish.error
        return event | {
            "kind": "error",
            "error": f"{type(error).__name__}: {error}" if error else "the run did not end",
        }
