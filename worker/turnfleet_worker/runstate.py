"""What a journal says of one run: its entries applied one after another (DESIGN 2).

A delegated run's entries stand in its root's journal under its own run id; its state hangs below the open round of
the run that called it, and goes when that call has its receipt.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from turnfleet_kernel.contracts.interrupts import Decided, Decision, Interrupt
from turnfleet_kernel.contracts.json import (
    decision_from_json,
    interrupt_from_json,
    tool_outcome_from_json,
    tool_request_from_json,
    turn_from_json,
)
from turnfleet_kernel.contracts.values import NO_USAGE, ModelTurn, ToolOutcome, ToolRequest, UsageDelta
from turnfleet_kernel.ports import ConversationPort
from turnfleet_kernel.resuming import child_interrupt_id
from turnfleet_worker.errors import NewerJournal
from turnfleet_worker.journal import Entry, Piece, pieces_of_text


@dataclass(slots=True)
class OpenRound:
    """The round that a journal ends in: its turn, and what is known of its calls.

    `called`: a call of it was made, so that all of the turn had been told before. `told`: the call ids whose results
    had been told when the run last paused.
    """

    turn: ModelTurn
    pieces: tuple[Piece, ...]
    receipts: dict[str, ToolOutcome] = field(default_factory=dict)
    starts: dict[str, Entry] = field(default_factory=dict)
    interrupts: dict[str, Interrupt] = field(default_factory=dict)
    waiting: tuple[str, ...] = ()
    decisions: dict[str, Decision] = field(default_factory=dict)
    children: "dict[str, RunState]" = field(default_factory=dict)
    called: bool = False
    told: frozenset[str] = frozenset()

    def settled(self) -> dict[str, Decided]:
        """Give the decisions of earlier pauses of the round."""
        return {
            name: Decided(self.interrupts[name], decision)
            for name, decision in self.decisions.items()
            if name not in self.waiting
        }

    def decided(self) -> dict[str, Decision]:
        """Give the decisions on what the run waits for now."""
        return {name: self.decisions[name] for name in self.waiting if name in self.decisions}


@dataclass(slots=True)
class RunState:
    """Where one run stands. `last_index` is the highest index of a next event that an entry named."""

    run_id: str
    root_run_id: str
    parent_run_id: str | None
    plan_id: str
    conversation: ConversationPort
    ran_seconds: float = 0.0
    transcript: Any = None
    opened: bool = False
    resolved: dict[str, Any] | None = None
    model: str | None = None
    usage: UsageDelta = NO_USAGE
    text: str = ""
    call_ids: list[str] = field(default_factory=list)
    rounds: int = 0
    tool_outcomes: list[ToolOutcome] = field(default_factory=list)
    interrupt_ids: list[str] = field(default_factory=list)
    round_start: int = 0
    last_index: int = 0
    open: OpenRound | None = None

    def tree(self) -> "Iterator[RunState]":
        """Give this run and every unfinished one below it, parents first."""
        yield self
        if self.open is not None:
            for child in self.open.children.values():
                yield from child.tree()

    def find(self, run_id: str) -> "RunState | None":
        """Give the unfinished run of this id, here or below."""
        return next((state for state in self.tree() if state.run_id == run_id), None)

    def take(self, entry: Entry) -> None:
        """Apply one entry of this run or of one below it.

        Raises `NewerJournal` for what this build does not know, and ValueError where an entry makes no sense:
        guessing would lose work.
        """
        run_id = entry.get("run", self.run_id)
        if run_id == self.run_id:
            self._take_own(entry)
            return
        if entry["k"] == "opened":
            self._open_below(entry, run_id)
        state = self.find(run_id)
        if state is None:
            raise ValueError(f"journal entry {entry['k']!r} is of the run {run_id!r}, which was not opened")
        state.take(entry)

    def _open_below(self, entry: Entry, run_id: str) -> None:
        parent = self.find(run_id.removesuffix(f".{entry['call']}"))
        if parent is None or parent.open is None:
            raise ValueError(f"the journal opens the run {run_id!r} outside of the round that called it")
        parent.open.children[entry["call"]] = RunState(
            run_id, self.root_run_id, parent.run_id, entry["plan"], self.conversation
        )

    def _take_own(self, entry: Entry) -> None:
        self.last_index = max(self.last_index, entry.get("at", 0))
        match entry["k"]:
            case "opened":
                self.transcript = self.conversation.load(entry["transcript"])
                self.opened, self.resolved, self.round_start = True, entry.get("resolved", {}), entry["at"]
            case "turn":
                self._turn(entry)
            case "start":
                current = self._round(entry)
                current.starts[entry["id"]] = entry
                current.called = True
            case "receipt":
                self._receipt(self._round(entry), tool_outcome_from_json(entry["outcome"]))
            case "paused":
                self._pause(self._round(entry), entry)
            case "decision":
                self._decide(self._round(entry), entry)
            case "closed":
                self._close(self._round(entry), entry)
            case "transcript":
                self.transcript = self.conversation.load(entry["transcript"])
            case kind:
                raise NewerJournal(
                    f"the journal of run {self.root_run_id!r} has an entry {kind!r}, which is unknown to this release: "
                    "a newer worker wrote it"
                )

    def _round(self, entry: Entry) -> OpenRound:
        if self.open is None:
            raise ValueError(f"journal entry {entry['k']!r} stands outside a round")
        return self.open

    def _turn(self, entry: Entry) -> None:
        # What was shown is in the pieces; the turn itself is what the record keeps of it.
        turn = replace(turn_from_json(entry), shown=None)
        shown = entry.get("pieces")
        stretches = pieces_of_text(turn.text) if shown is None else tuple((kind, text) for kind, text in shown)
        self.open = OpenRound(turn, stretches)
        self.model = entry.get("model", self.model)

    def _receipt(self, current: OpenRound, outcome: ToolOutcome) -> None:
        current.starts.pop(outcome.call_id, None)
        current.children.pop(outcome.call_id, None)
        current.receipts[outcome.call_id] = outcome
        current.called = True

    def _pause(self, current: OpenRound, entry: Entry) -> None:
        for interrupt in map(interrupt_from_json, entry["interrupts"]):
            current.interrupts[interrupt.id] = interrupt
            if interrupt.id not in self.interrupt_ids:
                self.interrupt_ids.append(interrupt.id)
            # Whoever asks has had no effect yet: a call that waits is not in doubt.
            current.starts.pop(interrupt.call_id or "", None)
        current.waiting = tuple(each["id"] for each in entry["interrupts"])
        for outcome in map(tool_outcome_from_json, entry.get("outcomes", ())):
            current.receipts[outcome.call_id] = outcome
        current.told = frozenset(current.receipts)
        self.ran_seconds = entry.get("ran", self.ran_seconds)

    def _decide(self, current: OpenRound, entry: Entry) -> None:
        current.decisions[entry["interrupt"]] = decision_from_json(entry["decision"])
        # A delegated run's interrupt has a name of its own in each run above it (HK-5).
        for child in current.children.values():
            prefix = child_interrupt_id(child.run_id, "")
            name = entry["interrupt"].removeprefix(prefix)
            if name != entry["interrupt"] and child.open is not None and name in child.open.interrupts:
                child.take({**entry, "interrupt": name, "run": child.run_id, "at": child.last_index})

    def _close(self, current: OpenRound, entry: Entry) -> None:
        reserved = current.turn.tool_requests
        requests: tuple[ToolRequest, ...] = (
            tuple(map(tool_request_from_json, entry["requests"])) if "requests" in entry else reserved
        )
        others = map(tool_outcome_from_json, entry.get("outcomes", ()))
        known = {**current.receipts, **{outcome.call_id: outcome for outcome in others}}
        outcomes = [known[request.call_id or ""] for request in requests]
        self.conversation.close_round(self.transcript, current.turn, requests, outcomes)
        self.usage = sum((outcome.usage for outcome in outcomes), self.usage + current.turn.usage)
        self.text += current.turn.text
        self.call_ids += [request.call_id or "" for request in reserved]
        self.rounds += 1
        self.tool_outcomes += outcomes
        self.round_start = entry["at"]
        self.open = None
