"""What a message must be before its run is looked at: an envelope of this fleet, signed, and not too large."""

from collections import Counter

from turnfleet.errors import InvalidEnvelope, PayloadTooLarge
from turnfleet.wire.envelope import Envelope, parse_envelope
from turnfleet.wire.limits import SizeLimits
from turnfleet_worker.trust import Trust


class Intake:
    """Reads messages of one fleet. What it refuses is counted in `counts` by a word for each kind."""

    def __init__(self, fleet: str, trust: Trust, limits: SizeLimits, counts: Counter[str]) -> None:
        self._fleet = fleet
        self._trust = trust
        self._limits = limits
        self._counts = counts

    def read(self, value: object) -> Envelope:
        """Return the envelope.

        Raises `InvalidEnvelope`, `BadSignature` and `PayloadTooLarge`: what is wrong, and nothing of what it holds.
        """
        try:
            # Without keys only: a signature is of the message as its producer wrote it.
            envelope = parse_envelope(value, whole=self._trust.keys is not None)
        except InvalidEnvelope:
            self._counts["invalid"] += 1
            raise
        if envelope.fleet != self._fleet:
            self._counts["other fleet"] += 1
            raise InvalidEnvelope(
                f"run {envelope.run_id!r} is of fleet {envelope.fleet!r} and its message came to fleet "
                f"{self._fleet!r}: give each fleet queues of its own"
            )
        self._trust.check_message(envelope)
        if not envelope.recorded:  # a recorded run is what its record says: its producer's limits were asked
            try:
                self._limits.check(envelope.to_json(), of=f" of run {envelope.run_id!r}")
            except PayloadTooLarge:
                self._counts["too large"] += 1
                raise
        return envelope
