"""What the runs of a chaos do: scripts made from a seed, each with the ends that it may come to."""

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from turnfleet_kernel.contracts.limits import PlanLimits
from turnfleet_kernel.contracts.spec import PlanSpec

MODEL: Final = "script"
CLERK: Final = "clerk"
KEYED: Final = "pay_keyed"
RECONCILED: Final = "pay_reconciled"
ASKED: Final = "pay_asked"
PLAIN: Final = "pay_plain"
APPROVED: Final = "pay_approved"
DAWDLE: Final = "dawdle"

IDEMPOTENT: Final = frozenset({KEYED})
PAYING: Final = (KEYED, RECONCILED, ASKED, PLAIN, APPROVED)

KINDS: Final = ("keyed", "reconciled", "in doubt", "plain", "approval", "question", "delegate", "cancel", "deadline")
_TOOLS: Final = {"keyed": KEYED, "reconciled": RECONCILED, "in doubt": ASKED, "plain": PLAIN, "approval": APPROVED}
_MIXED: Final = (KEYED, RECONCILED, ASKED, PLAIN)

DEADLINE_SECONDS: Final = 2.0
DAWDLING_SECONDS: Final = 60.0
_LIMITS: Final = PlanLimits(max_model_rounds=20)

CLERK_PLAN: Final = PlanSpec(name="chaos-clerk", model=MODEL, tools=(KEYED, ASKED), limits=_LIMITS)
PLAN: Final = PlanSpec(name="chaos", model=MODEL, tools=(*PAYING, DAWDLE, "ask"), delegates=(CLERK,), limits=_LIMITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """One run to be. `at`: seconds after the start when it is enqueued. `slots`: what it is to do, each by its tool.

    `refused`: the slots that the person rejects. `ends`: the states that it may end in, with what the error of a
    failed one must say. `cancel_after`: seconds after its enqueueing.
    """

    run_id: str
    kind: str
    at: float
    steps: tuple[Mapping[str, Any], ...]
    slots: Mapping[str, str]
    refused: frozenset[str] = frozenset()
    ends: Mapping[str, str] = field(default_factory=lambda: {"completed": ""})
    cancel_after: float | None = None
    deadline_seconds: float | None = None
    priority: int = 5

    @property
    def prompt(self) -> str:
        """What the scripted model reads."""
        return json.dumps({"steps": self.steps})


def write_scripts(seed: int, *, runs: int, seconds: float) -> tuple[Script, ...]:
    """Write the scripts of `runs` runs, spread over nine tenths of `seconds`. The same seed, the same runs."""
    dice = random.Random(f"workload {seed}")  # noqa: S311 - a workload that can be repeated, no secret
    return tuple(
        _Writer(dice, f"chaos-{seed}-{number:04d}", KINDS[number % len(KINDS)]).write(
            at=0.9 * seconds * number / max(runs, 1), seconds=seconds
        )
        for number in range(runs)
    )


class _Writer:
    def __init__(self, dice: random.Random, run_id: str, kind: str) -> None:
        self._dice = dice
        self._run_id = run_id
        self._kind = kind
        self._slots: dict[str, str] = {}

    def write(self, *, at: float, seconds: float) -> Script:
        steps = self._steps()
        ends = {"completed": ""}
        if self._kind == "cancel":
            ends = {"cancelled": "", "completed": ""}
        elif self._kind == "deadline":
            ends = {"failed": "DeadlineExceeded"}
        waiting = [slot for slot, tool in self._slots.items() if tool == APPROVED]
        return Script(
            run_id=self._run_id,
            kind=self._kind,
            at=at,
            steps=(*steps, {"say": "That is all there was to do.", "calls": []}),
            slots=dict(self._slots),
            refused=frozenset(slot for slot in waiting if self._dice.random() < 0.2),  # noqa: PLR2004 - one in five
            ends=ends,
            cancel_after=self._dice.uniform(0.2, min(6.0, seconds / 3)) if self._kind == "cancel" else None,
            deadline_seconds=DEADLINE_SECONDS if self._kind == "deadline" else None,
            priority=self._dice.choice((0, 5, 5, 5, 5, 5, 5, 9)),
        )

    def _steps(self) -> list[Mapping[str, Any]]:
        match self._kind:
            case "question":
                return [self._step(self._question()), self._step(self._pay(ASKED)), self._step(self._question())]
            case "delegate":
                return [self._step(self._delegate(), self._pay(KEYED)), self._step(self._pay(ASKED))]
            case "cancel":
                return [self._step(*(self._pay(tool) for tool in self._dice.sample(_MIXED, 2))) for _ in range(4)]
            case "deadline":
                return [self._step(self._pay(KEYED, quick=True)), self._step(_call(DAWDLE, seconds=DAWDLING_SECONDS))]
            case kind:
                rounds = self._dice.randint(2, 4)
                return [self._round(_TOOLS[kind]) for _ in range(rounds)]

    def _round(self, tool: str) -> Mapping[str, Any]:
        others = [self._dice.choice(_MIXED) for _ in range(self._dice.randrange(3))]
        return self._step(self._pay(tool), *map(self._pay, others))

    def _step(self, *calls: dict[str, Any]) -> Mapping[str, Any]:
        for place, each in enumerate(calls):
            # Half the models name their calls, the others leave it to the fleet.
            if self._dice.random() < 0.5:  # noqa: PLR2004 - half
                each["id"] = f"c{len(self._slots)}-{place}-{self._dice.randrange(10**6)}"
        return {"say": "Now I do what comes next, and say so in a few words.", "calls": list(calls)}

    def _pay(self, tool: str, *, quick: bool = False) -> dict[str, Any]:
        slot = f"{self._run_id}/{len(self._slots)}"
        self._slots[slot] = tool
        longest = 0.1 if quick else 2.0 if self._dice.random() < 0.2 else 0.6  # noqa: PLR2004 - one in five is slow
        before, after = (round(self._dice.uniform(0.02, longest), 3) for _ in range(2))
        return _call(tool, slot=slot, before=before, after=after)

    def _question(self) -> dict[str, Any]:
        return _call("ask", question=f"{self._run_id}: may I go on?")

    def _delegate(self) -> dict[str, Any]:
        steps = [self._step(self._pay(tool)) for tool in (KEYED, ASKED)]
        return _call(CLERK, prompt=json.dumps({"steps": [*steps, {"say": "The clerk has done it.", "calls": []}]}))


def _call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}
