"""From what went wrong to an exit code. The codes are part of the command's interface; scripts rely on them.

====  =====================================================================================================
code  meaning
====  =====================================================================================================
0     done, or the answer is yes
1     the run failed, was cancelled or expired, or the answer is no (nothing left to cancel)
2     the command was used wrongly: an option, a file, a plan or a decision that cannot be right
3     the fleet cannot be reached, or its Redis refuses to serve
4     there is no such run, or no such interrupt
5     somebody else decided first, it is not yours to decide, or the run's state does not allow it
128+n ended by signal n: 130 for Ctrl-C, 141 when the reader of a pipe went away, 143 for SIGTERM
====  =====================================================================================================
"""

from turnfleet import errors
from turnfleet_kernel.errors import PlanError, TurnfleetError

OK = 0
FAILED = 1
USAGE = 2
UNREACHABLE = 3
UNKNOWN = 4
CONFLICT = 5
INTERRUPTED = 130
BROKEN_PIPE = 141

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
    (errors.PlanRejected, USAGE),
    (errors.WireError, USAGE),
    (PlanError, USAGE),
    (errors.FleetUnavailable, UNREACHABLE),
    (errors.StoreError, UNREACHABLE),
)


def exit_code(error: TurnfleetError) -> int:
    """Return the exit code for an error; 1 for one that has no code of its own."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), FAILED)
