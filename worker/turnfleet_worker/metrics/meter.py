"""Where a worker's parts report what happened. This meter forgets it; what Prometheus asks for is kept by another."""

from typing import Final

from turnfleet.store.commands.survey import Survey
from turnfleet.store.records import Claim, Swept
from turnfleet_kernel.contracts.values import UsageDelta

__all__ = ["NO_METER", "Meter"]


class Meter:
    """Takes reports and does nothing with them. A meter never raises, and costs a run next to nothing."""

    wants_survey: bool = False
    """Whether the one who sweeps should ask the store how the fleet stands."""

    def claimed(self, claim: Claim) -> None:
        """Take note that this worker took a run."""

    def left(self, claim: Claim, state: str, seconds: float) -> None:
        """Take note that a claim is over, after `seconds`; `state` is the run's now ("lost": another worker has it)."""

    def turn(self, model: str, usage: UsageDelta) -> None:
        """Take note that a turn of a model was bought."""

    def written(self, seconds: float) -> None:
        """Take note that a batch of events was acknowledged, `seconds` after the oldest of them was made."""

    def swept(self, swept: Swept) -> None:
        """Take note that this worker swept a shard."""

    def surveyed(self, survey: Survey | None) -> None:
        """Take note of how the fleet stands, told to the worker that sweeps; None: another one does."""


NO_METER: Final = Meter()
