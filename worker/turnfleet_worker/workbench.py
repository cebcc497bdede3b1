"""What the invocations of a worker process share."""

from collections.abc import Callable
from dataclasses import dataclass, field

from turnfleet.store import Keys
from turnfleet.store.executor import AsyncExecutor
from turnfleet_kernel import InvocationKernel
from turnfleet_worker.metrics import NO_METER, Meter
from turnfleet_worker.people import MILLISECONDS
from turnfleet_worker.registry import Registry
from turnfleet_worker.settings import WorkerSettings
from turnfleet_worker.trust import Trust


@dataclass(frozen=True, slots=True)
class Bench:
    """What every invocation of a worker process works with."""

    kernel: InvocationKernel
    executor: AsyncExecutor
    keys: Keys
    registry: Registry
    settings: WorkerSettings
    draining: Callable[[], bool]
    meter: Meter = NO_METER
    trust: Trust = field(default_factory=Trust)

    @property
    def ttl_ms(self) -> int:
        """How long an ended run is kept."""
        return round(self.settings.retention_seconds * MILLISECONDS)
