"""How kernel tests look at an invocation."""

from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from turnfleet_kernel import (
    Decision,
    InvocationKernel,
    InvocationPlan,
    InvocationRunner,
    KernelEvent,
    PauseRecord,
    RequestContext,
    TeardownReport,
    TurnRequest,
    record_pause,
    resume,
)

ASK = TurnRequest("do it")


@dataclass
class Walk:
    """One invocation, as its consumer saw it."""

    ctx: RequestContext
    plan: InvocationPlan
    events: list[KernelEvent] = field(default_factory=list)
    raised: BaseException | None = None

    @property
    def kinds(self) -> list[str]:
        """The kinds of all events but stages."""
        return [event.kind for event in self.events if event.kind != "stage"]

    @property
    def text(self) -> str:
        """All text shown."""
        return "".join(event.text for event in self.events if event.kind == "text_delta")

    @property
    def report(self) -> TeardownReport:
        """The teardown report."""
        assert self.ctx.report is not None
        return self.ctx.report

    def of(self, kind: str) -> list[KernelEvent]:
        """All events of a kind."""
        return [event for event in self.events if event.kind == kind]

    def record(self) -> PauseRecord:
        """Record the pause, by way of JSON text."""
        return PauseRecord.model_validate_json(record_pause(self.plan, self.ctx).model_dump_json())


async def walk(
    plan: InvocationPlan,
    request: TurnRequest = ASK,
    *,
    context: RequestContext | None = None,
    run_id: str | None = None,
    streamed: bool = True,
) -> Walk:
    """Walk an invocation to its end and keep what was seen and raised; ``streamed``: with deltas of the model."""
    ctx = context if context is not None else RequestContext(plan, run_id=run_id)
    seen = Walk(ctx, plan)
    try:
        kernel = InvocationKernel()
        async with aclosing(
            InvocationRunner.events(kernel, plan, request, stream_model=streamed, context=ctx)
        ) as events:
            async for event in events:
                seen.events.append(event)
    except BaseException as raised:  # noqa: BLE001 - hand-overs and cancellations are looked at, too
        seen.raised = raised
    return seen


async def go_on(
    plan: InvocationPlan,
    record: PauseRecord,
    decisions: dict[str, Decision] | None = None,
    request: TurnRequest = ASK,
    *,
    streamed: bool = True,
) -> Walk:
    """Resume a recorded run and walk its next invocation."""
    plan, request, ctx = resume(plan, record, request, decisions or {})
    return await walk(plan, request, context=ctx, streamed=streamed)


def indices(*walks: Walk) -> list[int]:
    """List the indices of all events of a run's invocations."""
    return [event.index for each in walks for event in each.events]


def contents(messages: Any) -> list[tuple[str, Any]]:
    """List role and content of messages."""
    return [(message["role"], message["content"]) for message in messages]
