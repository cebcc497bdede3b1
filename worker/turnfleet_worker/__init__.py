"""turnfleet."""
