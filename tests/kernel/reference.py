"""The contract as a plain program: what a run must show and come to, worked out without kernel, loop or tasks.

It knows plans of a small kind (see ``Script``) whose calls are instant, so that what is started is over before the
next thing happens; with ``parallel`` 1 a call that waits keeps all later ones from starting, otherwise all start.
"""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Call:
    """A call that a model asks for: ``does`` is "ok", "raise" or "ask" (wait for an answer)."""

    call_id: str | None
    does: str


@dataclass(frozen=True)
class Gate:
    """A stage: ``does`` "ok", "fail", "soft" (fails, on_error continue) or "guard" (pre-tool: wait for approval).

    A failing one fails from its ``at``-th dispatch in the run on.
    """

    phase: str
    does: str
    at: int = 1


@dataclass(frozen=True)
class Script:
    """A plan: what the model asks for round by round (after the last it answers), the stages, and the limits."""

    rounds: tuple[tuple[Call, ...], ...]
    gates: tuple[Gate, ...]
    parallel: int
    max_rounds: int


class _Stop(Exception):
    """The invocation is over, with this last event."""


@dataclass
class _Round:
    ids: list[str]
    outcomes: dict[str, tuple[Any, str | None]] = field(default_factory=dict)
    usage_shown: bool = False
    turn_shown: bool = False
    called: set[str] = field(default_factory=set)
    told: set[str] = field(default_factory=set)
    reserved: bool = False


class Reference:
    """One run of a script. ``invoke`` gives what its next invocation shows."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.rounds = 0
        self.open: dict[str, str] = {}
        """Call id by interrupt id."""
        self.decisions: dict[str, str] = {}
        self.asked: dict[str, str] = {}
        """The same, of every interrupt that the run ever had."""
        self.call_ids: list[str] = []
        self.fresh = 0
        self.dispatched: dict[int, int] = {}
        self.resolved = False
        self.text = ""
        self.requests = 0
        self.outcomes: list[tuple[str, Any, str | None]] = []
        self.messages: list[tuple[str, Any]] = [("user", "do it")]
        self.effects: list[str] = []
        self.current: _Round | None = None
        self.events: list[Any] = []

    def invoke(self, decisions: dict[str, str]) -> list[Any]:
        """Run until it stops, with new decisions ("yes" or "no") on open interrupts."""
        self.decisions |= decisions
        left = {interrupt_id: call_id for interrupt_id, call_id in self.open.items() if interrupt_id not in decisions}
        self.open, self.events = left, []
        try:
            self._run()
        except _Stop as stop:
            self.events.append(stop.args[0])
        return self.events

    def _run(self) -> None:
        if not self.resolved:
            self._stages("resolve")
            self.resolved = True
        self._stages("compile")
        answered, stop_reason = False, "tool_limit"
        while not answered and self.rounds < self.script.max_rounds:
            answered = self._round()
            stop_reason = "stop" if answered else "tool_limit"
        self._stages("finalize")
        raise _Stop(("done", self.text, stop_reason, self.requests))

    def _round(self) -> bool:
        asked = self.script.rounds[self.rounds] if self.rounds < len(self.script.rounds) else ()
        self._stages("pre-model")
        current = self.current = self.current or _Round([])
        if not current.turn_shown:
            self.events.append(("text_delta", f"round{self.rounds}"))
            current.turn_shown = True
        self._stages("post-model")
        if not current.reserved:
            current.ids = [self._reserve(call.call_id) for call in asked]
            current.reserved = True
        if not current.usage_shown:
            self.events.append(("usage", 1))
            current.usage_shown = True
        if asked:
            self._stages("pre-tool")
            self._calls(current, asked)
        self.text += f"round{self.rounds}"
        self.requests += 1
        self.messages.append(("assistant", f"round{self.rounds}"))
        for call_id in current.ids:
            value, error = current.outcomes[call_id]
            self.outcomes.append((call_id, value, error))
            self.messages.append(("tool", value if error is None else error))
        self.rounds += 1
        self.current = None
        if asked:
            self._stages("post-tool")
        return not asked

    def _reserve(self, proposed: str | None) -> str:
        call_id = proposed
        while not call_id or call_id in self.call_ids:
            self.fresh += 1
            call_id = f"id-{self.fresh}"
        self.call_ids.append(call_id)
        return call_id

    # -- stages

    def _stages(self, phase: str) -> None:
        for place, gate in enumerate(self.script.gates):
            if gate.phase != phase:
                continue
            self.dispatched[place] = count = self.dispatched.get(place, 0) + 1
            bad = gate.does in {"fail", "soft"} and count >= gate.at
            waiting = self._unguarded(place) if gate.does == "guard" else []
            outcome = "paused" if waiting else "failed" if bad else "ok"
            self.events.append(("stage", f"s{place}", phase, outcome))
            if waiting:
                raise _Stop(("approval", self._pause(waiting)))
            if bad and gate.does == "fail":
                raise _Stop(("error", "RuntimeError"))

    def _unguarded(self, place: int) -> list[tuple[str, str]]:
        assert self.current is not None
        wanted = [(f"guard{place}:{call_id}", call_id) for call_id in self.current.ids]
        return [(interrupt_id, call_id) for interrupt_id, call_id in wanted if interrupt_id not in self.decisions]

    # -- calls

    def _calls(self, current: _Round, asked: tuple[Call, ...]) -> None:
        for call_id in current.ids:
            if call_id not in current.called:
                current.called.add(call_id)
                self.events.append(("tool_call", call_id))
        raised: list[tuple[str, str]] = []
        for call_id, call in zip(current.ids, asked, strict=True):
            if raised and self.script.parallel == 1:
                break
            outcome = self._make(current, call_id, call)
            if outcome is None:
                raised.append((self._question_of(call_id) or "ask", call_id))
                continue
            current.outcomes[call_id] = outcome
            if call_id not in current.told:
                current.told.add(call_id)
                self.events.append(("tool_result", call_id, *outcome))
        if raised:
            raise _Stop(("question", self._pause(raised)))

    def _question_of(self, call_id: str) -> str | None:
        return next((name for name, of in self.open.items() if of == call_id), None)

    def _make(self, current: _Round, call_id: str, call: Call) -> tuple[Any, str | None] | None:
        if call_id in current.outcomes:
            return current.outcomes[call_id]
        if self._question_of(call_id):
            return None
        for interrupt_id, said in self.decisions.items():
            if self.asked[interrupt_id] == call_id and said == "no":
                return None, "rejected by a person"
            if self.asked[interrupt_id] == call_id and not interrupt_id.startswith("guard"):
                return "answered", None
        self.effects.append(call_id)
        if call.does == "ask":
            return None
        return ("fine", None) if call.does == "ok" else (None, "ValueError: bad")

    # -- waiting

    def _pause(self, raised: list[tuple[str, str]]) -> list[str]:
        assert self.current is not None
        settled: dict[str, str] = {}
        for proposed, call_id in raised:
            name, number = proposed, 1
            while self.open.get(proposed) != call_id and name in self.asked:
                number += 1
                name = f"{proposed}#{number}"
            self.asked[name] = settled[name] = call_id
        for name, call_id in self.open.items():
            settled.setdefault(name, call_id)
        order = {call_id: place for place, call_id in enumerate(self.current.ids)}
        self.open = dict(sorted(settled.items(), key=lambda each: order[each[1]]))
        return list(self.open)
