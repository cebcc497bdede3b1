"""Fleets that the tests of the command line run."""
