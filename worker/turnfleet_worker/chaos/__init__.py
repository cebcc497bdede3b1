"""`turnfleet chaos`: a workload whose every effect is written down outside the fleet, faults, and a verdict."""
