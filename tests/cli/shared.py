"""What the tests of the command line share: a plan, and the command as a function."""

import json
from collections.abc import Callable
from typing import Any

import click.testing

from turnfleet import PlanSpec
from turnfleet.cli.main import cli

PLAN = PlanSpec(name="desk", model="obedient", tools=("pay", "ask"))
Command = Callable[..., click.testing.Result]


def command_for(url: str, fleet: str) -> Command:
    """Return a function that runs the command against a fleet."""

    def command(*arguments: str, typed: str | None = None) -> click.testing.Result:
        environment = {"TURNFLEET_REDIS_URL": url, "TURNFLEET_NAME": fleet, "TURNFLEET_BROKER_URL": None}
        return click.testing.CliRunner(env=environment).invoke(cli, list(arguments), input=typed)

    return command


def told(result: click.testing.Result) -> Any:
    """Return the JSON that a command printed."""
    return json.loads(result.stdout)
