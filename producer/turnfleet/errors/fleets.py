"""What can be wrong between a client or a worker and its fleet."""

from turnfleet_kernel.errors import TurnfleetError

__all__ = ["FleetUnavailable", "InvalidAddress", "StoreError", "WrongEventLoop"]


class InvalidAddress(TurnfleetError, ValueError):
    """A URL names no server. Its text shows nothing of the URL, which may hold a password."""


class WrongEventLoop(TurnfleetError):
    """An AsyncFleet belongs to the event loop that first used it; make one fleet per loop."""


class StoreError(TurnfleetError):
    """The fleet's Redis answered with an error: a set-up that does not fit, or a fault in turnfleet."""


class FleetUnavailable(TurnfleetError):
    """Redis or the broker did not answer in time. `maybe_enqueued`: the run's record may exist already.

    What asks once (`enqueue`, `status`, ...) says so within the client's `timeout`; what waits (`result`, `events`)
    goes on waiting first, as long as its own `timeout`, else the client's `reconnect_timeout`.
    Enqueueing again with the same `run_id` is always safe: the same request gives the same run.
    """

    def __init__(self, message: str, *, run_id: str | None = None, maybe_enqueued: bool = False) -> None:
        super().__init__(message)
        self.run_id = run_id
        self.maybe_enqueued = maybe_enqueued
