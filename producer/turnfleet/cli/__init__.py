"""The `turnfleet` command: light, so that a service that only enqueues has it too."""

from turnfleet.cli.main import cli, main

__all__ = ["cli", "main"]
