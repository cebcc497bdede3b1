"""Durability as port wrappers: what a run does is journaled on its way through its own ports (DESIGN 2).

The kernel's loop knows none of this, and nothing here adds a stage or an event. A replayed turn or outcome never
gets here: the kernel's replay ports stand outside of these (HK-4).
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, assert_never
from weakref import ref

from turnfleet_kernel.calls import charged
from turnfleet_kernel.context import RequestContext
from turnfleet_kernel.contracts.canonical import digest
from turnfleet_kernel.contracts.frozen import thaw
from turnfleet_kernel.contracts.interrupts import (
    Approve,
    Interrupt,
    InvocationPaused,
    Reject,
    Retry,
)
from turnfleet_kernel.contracts.plain import plain_json
from turnfleet_kernel.contracts.values import (
    Delta,
    ModelTurn,
    PromptAssembly,
    ToolOutcome,
    ToolRequest,
)
from turnfleet_kernel.errors import TurnfleetError
from turnfleet_kernel.plan import InvocationPlan, ModelPalette
from turnfleet_kernel.ports import ConversationPort, EventSink, ModelPort, ModelRound, ToolPort, Transcript
from turnfleet_kernel.wrapping import ConversationAround, ToolsAround
from turnfleet_worker import journal
from turnfleet_worker.fold import NOTHING_KNOWN, Known
from turnfleet_worker.gate import Gate
from turnfleet_worker.models.named import NamedModel
from turnfleet_worker.policy import ToolPolicy
from turnfleet_worker.writer import CancelRequested, RunWriter


class RunJournal:
    """One run's pen: knows where the run stands in this invocation, and writes what the wrappers see.

    `known` is what earlier invocations left, by run id. `gate` stands before each of the run's calls. `trace` is noted
    when the run opens.
    """

    def __init__(self, writer: RunWriter, *, known: Mapping[str, Known], gate: Gate, trace: str | None = None) -> None:
        self._writer = writer
        self._known = known
        self.gate = gate
        self._trace = trace
        # The context has the plan, whose ports have this journal: a run's memory is to go with its end, not with the
        # next round of the garbage collector.
        self._context: Callable[[], RequestContext | None] = _none_yet
        self._receipts: dict[str, ToolOutcome] = {}
        self.doubtful: dict[str, journal.Entry] = {}
        """Calls that an earlier worker started and left no receipt of, by call id."""
        self.transcript: Transcript = None

    def begin(self, context: RequestContext) -> None:
        """Take the invocation's context, before anything else; whose journal it is, it says."""
        self._context = ref(context)
        known = self._known.get(context.run_id, NOTHING_KNOWN)
        self._receipts, self.doubtful = dict(known.receipts), dict(known.doubtful)

    @property
    def context(self) -> RequestContext:
        """The invocation's context."""
        context = self._context()
        assert context is not None, "the context is the invocation's, which is over"
        return context

    def opened(self, transcript: Transcript, dumped: Any) -> None:
        """Note the transcript that the run starts from."""
        self.transcript = transcript
        resolved = {name: value for name, value in (self.context.resolved or {}).items() if name != "decisions"}
        self._write(journal.opened(dumped, resolved, self.context.next_index, self._trace))

    def _write(self, entry: journal.Entry) -> None:
        self._writer.entry(self._own(entry))

    def _own(self, entry: journal.Entry) -> journal.Entry:
        context = self.context
        if context.above is None:
            return entry
        return journal.of_child(entry, context.run_id, context.above.call_id, context.plan.identity.plan_id)

    def before_model(self, transcript: Transcript, dump: Callable[[Transcript], Any]) -> None:
        """Note a transcript that a stage put in the place of ours, before the model sees it."""
        if transcript is not self.transcript:
            self.transcript = transcript
            self._write(journal.transcript(dump(transcript)))

    def turn(self, said: ModelTurn, shown: Sequence[Delta], model: str | None, bought_as: str) -> ModelTurn:
        """Note a turn, its calls named as the kernel will name them (RES-3), and give it back so named.

        `model` is its name in the plan's palette, `bought_as` the one that it is registered by.
        """
        self._writer.meter.turn(bought_as, said.usage)
        named = replace(said, tool_requests=self._named(said.tool_requests))
        self._write(journal.turn(named, shown, model, self.context.next_index))
        return named

    def _named(self, requests: Sequence[ToolRequest]) -> tuple[ToolRequest, ...]:
        # The kernel keeps an id that is present and unused, so ids made unique here are the ones it reserves.
        used = set(self.context.call_ids)
        named = []
        for request in requests:
            call_id = request.call_id
            while not call_id or call_id in used:
                call_id = self.context.plan.bindings.ids.new()
            used.add(call_id)
            named.append(replace(request, call_id=call_id))
        return tuple(named)

    async def start(self, request: ToolRequest) -> None:
        """Note that a call starts, and return when that is durable: only then may it be made.

        When the run was cancelled or taken away meanwhile this does not return: its cancellation is on the way.
        """
        try:
            await self._writer.effect(self._own(journal.start(request)))
        except (CancelRequested, TurnfleetError):
            await self.gate.stay()
        self.doubtful.pop(request.call_id or "", None)

    def receipt(self, outcome: ToolOutcome) -> None:
        """Note what a call gave."""
        self._receipts[outcome.call_id] = outcome
        self._write(journal.receipt(outcome))

    def closed(self, requests: Sequence[ToolRequest], outcomes: Sequence[ToolOutcome]) -> None:
        """Note that a round with calls is over. One without is the last: its turn alone leads back to the end."""
        if not requests:
            return
        reserved = self.context.round.requests if self.context.round else requests
        at = self.context.next_index
        self._write(journal.closed(requests, outcomes, reserved=reserved, receipts=self._receipts, at=at))
        self._receipts.clear()


def _none_yet() -> None:
    return None


def make_durable(
    plan: InvocationPlan,
    run: RunJournal,
    policy: Callable[[str], ToolPolicy | None],
    *,
    sink: EventSink | None = None,
) -> InvocationPlan:
    """Return the plan with its ports wrapped for one invocation; `sink` takes its events where it is given."""
    bindings = plan.bindings
    dump = bindings.conversation.dump
    model: ModelPort | ModelPalette
    if isinstance(bindings.model, ModelPalette):
        models = {name: DurableModel(each, run, dump, name) for name, each in bindings.model.models.items()}
        model = replace(bindings.model, models=models)
    else:
        model = DurableModel(bindings.model, run, dump)
    return replace(
        plan,
        bindings=replace(
            bindings,
            model=model,
            tools=DurableTools(bindings.tools, run, policy),
            conversation=DurableConversation(bindings.conversation, run),
            event_sink=sink or bindings.event_sink,
        ),
    )


class DurableModel:
    """A model whose finished turns are journaled before anybody acts on them."""

    def __init__(
        self, inner: ModelPort, run: RunJournal, dump: Callable[[Transcript], Any], name: str | None = None
    ) -> None:
        self._inner = inner
        self._run = run
        self._dump = dump
        self._name = name
        self._bought_as = inner.name if isinstance(inner, NamedModel) else "(unnamed)"

    async def invoke(self, transcript: Transcript) -> ModelTurn:
        """Buy a whole turn and note it."""
        await self._run.gate.pass_through()
        self._run.before_model(transcript, self._dump)
        return self._run.turn(await self._inner.invoke(transcript), (), self._name, self._bought_as)

    def stream(self, transcript: Transcript) -> ModelRound:
        """Buy a turn piece by piece; it is noted when its result is asked for."""
        return _DurableRound(self, transcript)

    def begin(self, transcript: Transcript) -> ModelRound:
        """Ask the model, once the gate has been passed."""
        self._run.before_model(transcript, self._dump)
        return self._inner.stream(transcript)

    @property
    def run(self) -> RunJournal:
        """The journal of the run that it is bought for."""
        return self._run

    def finished(self, turn: ModelTurn, shown: Sequence[Delta]) -> ModelTurn:
        """Note a turn that was bought piece by piece."""
        return self._run.turn(turn, shown, self._name, self._bought_as)


class _DurableRound:
    def __init__(self, model: DurableModel, transcript: Transcript) -> None:
        self._model = model
        self._transcript = transcript
        self._inner: ModelRound | None = None
        self._shown: list[Delta] = []

    async def deltas(self) -> AsyncIterator[Delta]:
        await self._model.run.gate.pass_through()
        self._inner = self._model.begin(self._transcript)
        async with aclosing(self._inner.deltas()) as pieces:  # type: ignore[type-var]
            async for delta in pieces:
                self._shown.append(delta)
                yield delta

    def result(self) -> ModelTurn:
        assert self._inner is not None
        return self._model.finished(self._inner.result(), self._shown)


class DurableTools(ToolsAround):
    """A manifest whose calls are journaled before they start and when they end (DESIGN 2)."""

    def __init__(self, inner: ToolPort, run: RunJournal, policy: Callable[[str], ToolPolicy | None]) -> None:
        super().__init__(inner)
        self._run = run
        self._policy = policy

    async def call(self, request: ToolRequest) -> ToolOutcome:
        """Make a call once its start is durable; a call in doubt is first cleared up."""
        await self._run.gate.pass_through()
        if request.name not in self._inner.names():
            return await self._inner.call(request)  # no such tool: nothing can happen that would have to be known
        if request.call_id in self._run.doubtful:
            known = await self._clear_up(request)
            if known is not None:
                self._run.receipt(known)
                return known
        await self._run.start(request)
        # What the call spent on models belongs to what is kept of it.
        outcome = charged(await self._inner.call(request))
        self._run.receipt(outcome)
        return outcome

    async def _clear_up(self, request: ToolRequest) -> ToolOutcome | None:
        """Give the outcome of a call that an earlier worker started; None when it is to be made (again)."""
        policy = self._policy(request.name)
        if policy is None or policy.idempotent:
            return None
        call_id = request.call_id or ""
        match await policy.found_out(request):
            case None:
                raise InvocationPaused(_in_doubt(request))
            case Approve(value=value):
                return ToolOutcome(call_id, request.name, value)
            case Reject(reason=reason):
                return ToolOutcome(call_id, request.name, error=reason or "this call was not made")
            case Retry():
                return None
            case unreachable:
                assert_never(unreachable)


def _in_doubt(request: ToolRequest) -> Interrupt:
    arguments = plain_json(thaw(request.arguments))
    payload = {"tool": request.name, "arguments": arguments, "digest": digest(arguments)}
    return Interrupt(f"in_doubt:{request.call_id}", "in_doubt", payload, request.call_id)


class DurableConversation(ConversationAround):
    """A conversation whose openings and closed rounds are journaled; the transcript itself is written once."""

    def __init__(self, inner: ConversationPort, run: RunJournal) -> None:
        super().__init__(inner)
        self._run = run

    def open_turn(self, assembly: PromptAssembly) -> Transcript:
        """Open and note it."""
        transcript = self._inner.open_turn(assembly)
        self._run.opened(transcript, self._inner.dump(transcript))
        return transcript

    def close_round(
        self,
        transcript: Transcript,
        turn: ModelTurn,
        requests: Sequence[ToolRequest],
        outcomes: Sequence[ToolOutcome],
    ) -> None:
        """Close the round and note what no earlier entry says."""
        self._inner.close_round(transcript, turn, requests, outcomes)
        self._run.closed(requests, outcomes)

    def load(self, value: Any) -> Transcript:
        """Load, and know the transcript as the run's own."""
        transcript = self._inner.load(value)
        self._run.transcript = transcript
        return transcript
