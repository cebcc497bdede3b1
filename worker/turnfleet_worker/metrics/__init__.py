"""What a worker measures, for Prometheus: its own work, and the fleet while it is the one that sweeps."""

from turnfleet_worker.metrics.meter import NO_METER, Meter

__all__ = ["NO_METER", "Meter"]
