"""The one table of run states. The guards in the scripts are rendered from it; nothing else says what may follow what.

Rules on top of the table:
- An event that the table does not have for a state changes nothing, and the error says what the state was.
- `cancel` and `expire` of a running run are recorded as intent first. The end is written when its claim ends (finish,
  pause, release, park, or the lease is lost), and then the intent wins over whatever else was to be written.
- Terminal states absorb, except `failed`, from which `retry` goes on.
- A decision kind fits an interrupt kind as HK-6 says; that table stands here too, because the same script reads it.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, get_args

QUEUED: Final = "queued"
PARKED: Final = "parked"
RUNNING: Final = "running"
PAUSED: Final = "paused"
COMPLETED: Final = "completed"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"
EXPIRED: Final = "expired"

RunState: TypeAlias = Literal["queued", "parked", "running", "paused", "completed", "failed", "cancelled", "expired"]
STATES: Final[tuple[RunState, ...]] = get_args(RunState)
TERMINAL_STATES: Final = frozenset({COMPLETED, FAILED, CANCELLED, EXPIRED})

TRANSITIONS: Final[Mapping[str, tuple[tuple[str, ...], str]]] = MappingProxyType({
    # event      from                                 to
    "claim":    ((QUEUED,),                           RUNNING),
    "release":  ((RUNNING,),                          QUEUED),     # hand-back, or a pause that finds all decided
    "lose":     ((RUNNING,),                          QUEUED),     # the lease expired
    "park":     ((RUNNING,),                          PARKED),     # the claimer lacks names, and so does every worker
    "unpark":   ((PARKED,),                           QUEUED),
    "pause":    ((RUNNING,),                          PAUSED),
    "resume":   ((PAUSED,),                           QUEUED),     # the last open interrupt was decided
    "complete": ((RUNNING,),                          COMPLETED),
    "fail":     ((RUNNING,),                          FAILED),     # by its worker, or by the sweep as a dead letter
    "cancel":   ((QUEUED, PARKED, RUNNING, PAUSED),   CANCELLED),
    "expire":   ((QUEUED, PARKED, RUNNING, PAUSED),   EXPIRED),
    "retry":    ((FAILED,),                           QUEUED),
})  # fmt: skip
"""event -> (states it may come from, state it leads to)."""

ENDINGS: Final[Mapping[str, str]] = MappingProxyType(
    {COMPLETED: "complete", FAILED: "fail", CANCELLED: "cancel", EXPIRED: "expire"}
)
"""terminal state -> the event that leads to it."""

DECISIONS: Final[Mapping[str, frozenset[str]]] = MappingProxyType({
    "approval": frozenset({"approve", "edit", "reject"}),
    "question": frozenset({"answer", "reject"}),
    "in_doubt": frozenset({"approve", "edit", "retry", "reject"}),
})  # fmt: skip
"""interrupt kind -> decision kinds that fit it (HK-6)."""


def target(event: str, state: str) -> str | None:
    """Return the state that `event` leads to from `state`, or None when it is illegal there."""
    sources, to = TRANSITIONS[event]
    return to if state in sources else None


def _set(names: Iterable[str]) -> str:
    return "{" + ",".join(f"[{name!r}]=true" for name in sorted(names)) + "}"


def render() -> str:
    """Return the tables as Lua: `MOVES[event][from] = to`, `TERMINAL`, `ENDINGS`, `FITTING[kind][decision]`."""
    moves = ",".join(
        f"[{event!r}]={{{','.join(f'[{source!r}]={to!r}' for source in sources)}}}"
        for event, (sources, to) in TRANSITIONS.items()
    )
    endings = ",".join(f"[{state!r}]={event!r}" for state, event in ENDINGS.items())
    fitting = ",".join(f"[{kind!r}]={_set(fits)}" for kind, fits in DECISIONS.items())
    return (
        f"local MOVES={{{moves}}}\n"
        f"local TERMINAL={_set(TERMINAL_STATES)}\n"
        f"local ENDINGS={{{endings}}}\n"
        f"local FITTING={{{fitting}}}\n"
    )
