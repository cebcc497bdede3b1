"""`python -m turnfleet.cli`: the command, where no script was installed."""

from turnfleet.cli import main

main()
