"""The file outside the fleet that knows what really happened: one JSON line an effect, appended, never changed.

It stands for the bank, the mail server, the other system that a tool talks to. Nothing of the fleet reads it but the
scripted person and the `reconcile` function, who look there as a person would. A line is one `write` to a file opened
for appending: lines of several processes do not mix, and what a killed process wrote stays.
"""

import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

AnswerKind = Literal["approve", "retry", "reject", "answer"]


@dataclass(frozen=True, slots=True)
class Effect:
    """An effect that was made. `slot` is the one thing that was to be done once; `call` the call id it was done under.

    Times are Unix seconds: when the tool's function began, and when the effect was made. `pid` is the worker's.
    """

    run: str
    slot: str
    call: str
    tool: str
    kind: str
    pid: int
    began: float
    time: float


@dataclass(frozen=True, slots=True)
class Reply:
    """What was decided about a slot: by a person, or by a reconcile function. `looked` is when the file was read."""

    slot: str
    about: Literal["approval", "question", "in_doubt"]
    answer: AnswerKind
    by: Literal["person", "reconcile"]
    looked: float


@dataclass(frozen=True, slots=True)
class Turn:
    """A model turn that was bought."""

    run: str
    number: int
    pid: int


@dataclass(frozen=True, slots=True)
class Record:
    """The file as it was read, in the order of writing."""

    effects: tuple[Effect, ...] = ()
    replies: tuple[Reply, ...] = ()
    turns: tuple[Turn, ...] = ()

    def made(self, slot: str) -> bool:
        """Whether the effect of a slot is there."""
        return any(effect.slot == slot for effect in self.effects)


class Ledger:
    """Writes and reads the file; any number of processes may at once."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def effect(self, *, run: str, slot: str, call: str, tool: str, kind: str, began: float) -> None:
        """Make an effect: append it."""
        self._append("effect", Effect(run, slot, call, tool, kind, os.getpid(), began, time.time()))

    def reply(self, reply: Reply) -> None:
        """Note what was decided about a slot, before it is said."""
        self._append("reply", reply)

    def turn(self, run: str, number: int) -> None:
        """Note that a model turn is bought."""
        self._append("turn", Turn(run, number, os.getpid()))

    def read(self) -> Record:
        """Read everything. A last line without its end is being written, and not read."""
        found: dict[str, list[Any]] = {"effect": [], "reply": [], "turn": []}
        kinds: dict[str, Any] = {"effect": Effect, "reply": Reply, "turn": Turn}
        text = self.path.read_text() if self.path.exists() else ""
        for line in text[: text.rfind("\n") + 1].splitlines():
            fields = json.loads(line)
            what = fields.pop("what")
            found[what].append(kinds[what](**fields))
        return Record(tuple(found["effect"]), tuple(found["reply"]), tuple(found["turn"]))

    def _append(self, what: str, line: Effect | Reply | Turn) -> None:
        content = json.dumps({"what": what, **asdict(line)}, separators=(",", ":")) + "\n"
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(file, content.encode())
        finally:
            os.close(file)
