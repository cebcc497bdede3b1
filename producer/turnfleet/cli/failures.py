"""From what went wrong to an exit code. The codes are part of the command's interface; scripts rely on them."""

from collections.abc import Mapping
from typing import Final

from turnfleet import errors
from turnfleet_kernel.errors import PlanError, TurnfleetError

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
UNREACHABLE: Final = 3
UNKNOWN: Final = 4
CONFLICT: Final = 5
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141

MEANINGS: Final[Mapping[int, str]] = {
    OK: "done, or the answer is yes",
    FAILED: "the run failed, was cancelled or expired, or the answer is no",
    USAGE: "wrong usage: an option, a file, a plan or a decision that cannot be right",
    UNREACHABLE: "the fleet cannot be reached, or its Redis refuses to serve",
    UNKNOWN: "there is no such run, or no such interrupt",
    CONFLICT: "somebody decided first, it is not yours to decide, or the run's state does not allow it",
    INTERRUPTED: "ended by Ctrl-C (128+n: by signal n; 143 for SIGTERM)",
    BROKEN_PIPE: "whoever read the output went away (as after SIGPIPE)",
}

# The first type that fits decides, so a type stands before those it derives from.
_CODES: tuple[tuple[type[TurnfleetError], int], ...] = (
    (errors.UnknownInterrupt, UNKNOWN),
    (errors.UnknownRun, UNKNOWN),
    (errors.ResumeConflict, CONFLICT),
    (errors.NotAllowed, CONFLICT),
    (errors.IllegalTransition, CONFLICT),
    (errors.RunIdConflict, CONFLICT),
    (errors.ThreadBusy, CONFLICT),
    (errors.RunPaused, CONFLICT),
    (errors.InvalidDecision, USAGE),
    (errors.InvalidId, USAGE),
    (errors.InvalidAddress, USAGE),
    (errors.PlanRejected, USAGE),
    (errors.WireError, USAGE),
    (PlanError, USAGE),
    (errors.FleetUnavailable, UNREACHABLE),
    (errors.StoreError, UNREACHABLE),
)


def exit_code(error: TurnfleetError) -> int:
    """Return the exit code for an error; 1 for one that has no code of its own."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), FAILED)
