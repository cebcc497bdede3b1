"""The `turnfleet` command: light, so that a service that only enqueues has it too."""

import sys


def main() -> None:
    """Run the command line; the entry point of the `turnfleet` script."""
    try:
        # Loaded here, so that a Ctrl-C while Python is still loading ends in silence, too.
        from turnfleet.cli.main import cli  # noqa: PLC0415
        from turnfleet.cli.ways_out import prepare_streams  # noqa: PLC0415

        prepare_streams()
    except KeyboardInterrupt:
        sys.exit(130)
    cli(prog_name="turnfleet")


__all__ = ["main"]
