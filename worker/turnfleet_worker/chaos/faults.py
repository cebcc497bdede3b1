"""What is done to the fleet and when: a schedule made from a seed."""

import random
from dataclasses import dataclass
from typing import Final, Literal, get_args

FaultKind = Literal[
    "kill -9 worker",
    "freeze worker",
    "rolling restart",
    "restart Redis",
    "kill -9 Redis",
    "cut connections",
    "duplicate messages",
    "steal messages",
]

FAULT_KINDS: Final[tuple[FaultKind, ...]] = get_args(FaultKind)

_DECK: Final[tuple[FaultKind, ...]] = (*FAULT_KINDS, "kill -9 worker", "kill -9 worker", "freeze worker")
"""One round of faults: each kind once, what kills runs in progress more often."""

FIRST_AFTER: Final = 2.0
PAUSES: Final = (1.5, 3.5)
DOWNTIME: Final = (0.1, 3.0)


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault at a time (seconds from the start); `seconds`: how long what is taken away stays away."""

    at: float
    kind: FaultKind
    seconds: float


def plan_faults(seed: int, *, seconds: float, lease_seconds: float) -> tuple[Fault, ...]:
    """Plan the faults of `seconds`: the kinds in shuffled rounds. The same seed gives the same schedule.

    A freeze lasts longer than a lease, so that another worker takes the runs before the frozen one wakes up.
    """
    dice = random.Random(f"faults {seed}")  # noqa: S311 - a schedule that can be repeated, no secret
    faults: list[Fault] = []
    deck: list[FaultKind] = []
    at = FIRST_AFTER
    while at < seconds:
        if not deck:
            deck = list(_DECK)
            dice.shuffle(deck)
        kind = deck.pop()
        lasting = dice.uniform(1.2, 2.0) * lease_seconds if kind == "freeze worker" else dice.uniform(*DOWNTIME)
        faults.append(Fault(round(at, 2), kind, round(lasting, 2)))
        at += dice.uniform(*PAUSES)
    return tuple(faults)
