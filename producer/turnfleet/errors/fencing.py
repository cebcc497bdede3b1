"""Writes that were refused because they do not come from whoever holds the run."""

from turnfleet.errors.runs import RunError

__all__ = ["ClaimLost", "FencedOff", "StepGap"]


class FencedOff(RunError):
    """A write of this invocation was refused: it must stop, and another one goes on with the run."""


class ClaimLost(FencedOff):
    """The run is not held by this claim any more. `state` is what it is now; empty when its record is gone."""

    def __init__(self, run_id: str, state: str) -> None:
        now = f"its state is {state}" if state else "its record is gone"
        super().__init__(run_id, f"run {run_id!r} is no longer held by this claim ({now}): this invocation must stop")
        self.state = state


class StepGap(FencedOff):
    """A write does not follow the last one that the store has. `counter` is `"seq"` or `"index"`."""

    def __init__(self, run_id: str, counter: str, *, expected: int, given: int) -> None:
        super().__init__(
            run_id,
            f"run {run_id!r}: a write with {counter} {given} cannot follow: {expected} was expected, nothing changed",
        )
        self.counter = counter
        self.expected = expected
        self.given = given
