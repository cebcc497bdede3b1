"""Random plans, walked step by step beside a plain program that works out what the contract says."""

import asyncio
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from kernel.kit import Walk, contents, go_on, walk
from kernel.reference import Call, Gate, Reference, Script

from turnfleet_kernel import (
    PAUSE_KINDS,
    Answer,
    Approve,
    Decision,
    Interrupt,
    InvocationPaused,
    InvocationPlan,
    KernelEvent,
    ModelTurn,
    Phase,
    Reject,
    Stage,
    StageFrame,
    ToolRequest,
    UsageDelta,
)
from turnfleet_kernel.testing import CountingIds, ScriptedModel, make_plan

PHASES = [phase.value for phase in Phase if phase is not Phase.BIND]

calls = st.builds(Call, st.sampled_from([None, "", "a", "b", "c"]), st.sampled_from(["ok", "ok", "raise", "ask"]))
gates = st.one_of(
    st.builds(Gate, st.sampled_from(PHASES), st.sampled_from(["ok", "soft", "fail"]), st.integers(1, 6)),
    st.just(Gate("pre-tool", "guard")),
)
scripts = st.builds(
    Script,
    st.lists(st.lists(calls, min_size=1, max_size=4).map(tuple), max_size=3).map(tuple),
    st.lists(gates, max_size=4).map(tuple),
    st.sampled_from([1, 8]),
    st.integers(1, 4),
)


class Actual:
    """The same script as a plan of the kernel."""

    def __init__(self, script: Script) -> None:
        self.effects: list[str] = []
        self.dispatched: dict[int, int] = {}
        turns = [self._turn(number, asked) for number, asked in enumerate((*script.rounds, ()))]
        self.plan: InvocationPlan = make_plan(
            ScriptedModel(turns),
            tools={"do": self._do},
            stages=[self._stage(place, gate) for place, gate in enumerate(script.gates)],
            ids=CountingIds(),
            max_model_rounds=script.max_rounds,
            max_parallel_tools=script.parallel,
        )

    @staticmethod
    def _turn(number: int, asked: tuple[Call, ...]) -> ModelTurn:
        requests = tuple(ToolRequest(call.call_id, "do", {"does": call.does}) for call in asked)
        return ModelTurn(f"round{number}", UsageDelta(requests=1), "tools" if asked else "stop", requests)

    def _do(self, does: str) -> str:
        self.effects.append(does)
        if does == "ask":
            raise InvocationPaused(Interrupt("ask", "question"))
        if does == "raise":
            raise ValueError("bad")
        return "fine"

    def _stage(self, place: int, gate: Gate) -> Stage:
        def act(frame: StageFrame) -> None:
            self.dispatched[place] = count = self.dispatched.get(place, 0) + 1
            if gate.does in {"fail", "soft"} and count >= gate.at:
                raise RuntimeError("stage")
            if gate.does == "guard":
                decided = {} if frame.resolved is None else frame.resolved.get("decisions", {})
                wanted = [(f"guard{place}:{each.call_id}", each.call_id) for each in frame.requests or ()]
                waiting = [Interrupt(name, "approval", {}, call_id) for name, call_id in wanted if name not in decided]
                if waiting:
                    raise InvocationPaused(*waiting)

        return Stage(f"s{place}", Phase(gate.phase), act, "continue" if gate.does == "soft" else "fail")


def told(event: KernelEvent) -> Any:
    """Give what an event says, in the words of the reference."""
    match event.kind:
        case "stage":
            said: tuple[Any, ...] = "stage", event.trace.stage_id, event.trace.phase, event.trace.outcome
        case "text_delta":
            said = "text_delta", event.text
        case "usage":
            said = "usage", event.usage.requests
        case "tool_call":
            said = "tool_call", event.call_id
        case "tool_result":
            said = "tool_result", event.call_id, event.outcome.value, event.outcome.error
        case "done":
            said = "done", event.outcome.text, event.outcome.stop_reason, event.outcome.usage.requests
        case "error":
            said = "error", event.error.partition(":")[0]
        case kind if kind in PAUSE_KINDS:
            said = kind, [each.id for each in event.interrupts]
        case kind:
            said = (kind,)
    return said


class RunMachine(RuleBasedStateMachine):
    """One run, invocation after invocation, until it ends; then another."""

    seen: Walk | None = None

    @precondition(lambda self: self.seen is None or self.seen.kinds[-1] not in PAUSE_KINDS)
    @rule(script=scripts, streamed=st.booleans())
    def start(self, script: Script, *, streamed: bool) -> None:
        """Make the plan twice, and run its first invocation."""
        self.expected, self.actual, self.streamed = Reference(script), Actual(script), streamed
        self.indices: list[int] = []
        self._compare(walk(self.actual.plan, run_id="r", streamed=streamed), {})

    @precondition(lambda self: self.seen is not None and self.seen.kinds[-1] in PAUSE_KINDS)
    @rule(data=st.data())
    def go_on(self, data: st.DataObject) -> None:
        """Decide some of what is open, or nothing, and run the next invocation."""
        chosen = data.draw(st.dictionaries(st.sampled_from(list(self.expected.open)), st.sampled_from(["yes", "no"])))
        decisions = {name: self._decision(name, said) for name, said in chosen.items()}
        assert self.seen is not None
        record = self.seen.record()
        self._compare(go_on(self.actual.plan, record, decisions, streamed=self.streamed), chosen)

    @staticmethod
    def _decision(name: str, said: str) -> Decision:
        if said == "no":
            return Reject()
        return Approve() if name.startswith("guard") else Answer("answered")

    def _compare(self, invocation: Any, chosen: dict[str, str]) -> None:
        self.seen = seen = asyncio.run(invocation)
        assert [told(event) for event in seen.events] == self.expected.invoke(chosen)
        self.indices += [event.index for event in seen.events]

    @invariant()
    def the_run_is_where_the_reference_is(self) -> None:
        """Ids, outcomes, transcript, effects, and indices without a hole (EVT-2, RES-3, HK-3 to HK-5, STG-1, STG-6)."""
        if self.seen is None or self.seen.kinds[-1] == "error":
            return
        ctx, expected = self.seen.ctx, self.expected
        assert list(ctx.call_ids) == expected.call_ids
        assert [(each.call_id, each.value, each.error) for each in ctx.tool_outcomes] == expected.outcomes
        assert len(self.actual.effects) == len(expected.effects)
        assert self.indices == list(range(len(self.indices)))
        assert contents(ctx.transcript) == expected.messages


RunMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=12)
test_random_runs = RunMachine.TestCase
