"""A paused (or interrupted) run, written down: enough to go on from, in plain JSON (HK-3)."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict

from turnfleet_kernel.contracts.interrupts import Decided, Interrupt
from turnfleet_kernel.contracts.plain import plain_json
from turnfleet_kernel.contracts.values import NO_USAGE, Delta, ModelTurn, ToolOutcome, UsageDelta

__all__ = ["Made", "PauseRecord"]


def _plain(value: Any) -> Any:
    return plain_json(value)


Json = Annotated[Any, AfterValidator(_plain)]


class Made(BaseModel):
    """Which events of the open round exist already, so that its replay does not make them again (EVT-12)."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid", hide_input_in_errors=True)

    usage: tuple[int, ...] = ()
    """Numbers of rounds (counted from 1) whose ``usage`` event was made: the open round's, or none."""
    tool_calls: tuple[str, ...] = ()
    """Call ids of the open round, in request order."""
    tool_results: tuple[str, ...] = ()
    """Call ids of the open round, in request order."""


class PauseRecord(BaseModel):
    """What a run needs to go on, on any worker.

    The accumulators (``usage``, ``text``, ``call_ids``, ``rounds``, ``tool_outcomes``) are as they were before the
    open round's turn was absorbed; the replay absorbs it again. ``ran_seconds`` is all running time used so far.

    The same form serves recovery after a crash: with ``turn=None`` the run goes on at a round boundary, from the
    transcript; with ``transcript=None`` from its very beginning. ``shown`` is what the replayed turn shows again
    (nothing, unless the fleet rewound the events of a turn that was cut off).
    """

    model_config = ConfigDict(
        defer_build=True, frozen=True, extra="forbid", hide_input_in_errors=True, allow_inf_nan=False
    )

    v: Literal[1] = 1
    run_id: str
    root_run_id: str
    parent_run_id: str | None = None
    plan_id: str
    transcript: Json = None
    """What the conversation port dumped: the transcript without the open round."""
    turn: ModelTurn | None = None
    """The open round's turn, its requests with their reserved ids, before any stage amended them."""
    answered: bool = False
    """Whether the turn is the run's answer and stands in the transcript already: only the end is to be done again."""
    shown: tuple[Delta, ...] = ()
    outcomes: dict[str, ToolOutcome] = {}
    """Known outcomes of the open round, by call id."""
    decisions: dict[str, Decided] = {}
    """Decisions taken in the open round, by interrupt id."""
    children: dict[str, "PauseRecord"] = {}
    """Delegated runs that stopped in the open round, by the call id that runs them."""
    model: str | None = None
    """The palette's choice, None where there is no palette (IPL-6)."""
    usage: UsageDelta = NO_USAGE
    text: str = ""
    call_ids: tuple[str, ...] = ()
    """Every call id of earlier rounds, in the order reserved (RES-3)."""
    rounds: int = 0
    """Model rounds closed so far."""
    ran_seconds: float = 0.0
    tool_outcomes: tuple[ToolOutcome, ...] = ()
    next_index: int = 0
    interrupts: tuple[Interrupt, ...] = ()
    """The open ones, in the order that the pause event listed them."""
    interrupt_ids: tuple[str, ...] = ()
    """Every interrupt id used in the run, in the order first used."""
    resolved: Annotated[dict[str, Any], AfterValidator(_plain)] | None = None
    """Resolved inputs without the kernel's own ``decisions``; None if RESOLVE stages have not run."""
    made: Made = Made()

    def same_as(self, other: "PauseRecord") -> bool:
        """Compare everything but running time, which no journal can tell to the digit."""
        return self.timeless() == other.timeless()

    def timeless(self) -> "PauseRecord":
        """Give the record with running time zero, its children's too."""
        children = {call_id: child.timeless() for call_id, child in self.children.items()}
        return self.model_copy(update={"ran_seconds": 0.0, "children": children})
