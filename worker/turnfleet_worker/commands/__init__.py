"""The commands of the `turnfleet` command line that need the worker wing, and the processes that they start."""
