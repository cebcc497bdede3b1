"""`python -m turnfleet`: the command, where no script was installed or it is not on PATH."""

from turnfleet.cli import main

main()
