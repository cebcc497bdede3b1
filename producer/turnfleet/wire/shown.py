"""What Flower, Celery's events and logs show of a message: names and numbers, never what the run is about.

Both ends need it: the producer writes it into the headers, the worker believes only what it could have written.
"""

import re
from dataclasses import dataclass
from typing import Final

MOST_NAME_CHARACTERS: Final = 80
LAST_NUMBERED_TURN: Final = 9
"""Later turns share one name: the names of tasks are labels of Flower's own metrics, and those must stay few."""

_UNFIT: Final = re.compile(r"[^\w .:@/+-]")
_WRITTEN: Final = re.compile(
    r"\{'plan': '(?P<plan>[\w .:@/+?-]{1,80})', (?:'turn': (?P<turn>[1-9]\d{0,8}), )?"
    r"'run_id': '(?P<run>[A-Za-z0-9._:@-]{1,200})'\}"
)


@dataclass(frozen=True, slots=True)
class Shown:
    """One message of a run. `turn` is its number: 1 is the run's first message, each pause or loss adds one."""

    plan: str
    turn: int
    run_id: str

    @property
    def name(self) -> str:
        """What stands in the place of the task's name (Celery's `shadow`); routing does not look at it."""
        turn = str(self.turn) if self.turn <= LAST_NUMBERED_TURN else f"{LAST_NUMBERED_TURN + 1}+"
        return f"{self._plan} (turn {turn})"

    @property
    def arguments(self) -> str:
        """What stands in the place of the keyword arguments."""
        return repr({"plan": self._plan, "turn": self.turn, "run_id": self.run_id})

    @property
    def _plan(self) -> str:
        # A plan's name may hold anything; a page and a log line hold a few plain characters of it.
        return _UNFIT.sub("?", self.plan[:MOST_NAME_CHARACTERS]) or "?"


def read_shown(arguments: object) -> Shown | None:
    """Read what `Shown.arguments` wrote, here or in an earlier release; None for anything else."""
    written = _WRITTEN.fullmatch(arguments) if isinstance(arguments, str) else None
    if written is None:
        return None
    return Shown(written["plan"], int(written["turn"] or 1), written["run"])
