"""The options that every command has, and the fleet that they name."""

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click
from typing_extensions import override

from turnfleet.cli.urls import broker_fault, redis_fault
from turnfleet.errors import InvalidId, UnknownRun
from turnfleet.store import validate_id

if TYPE_CHECKING:
    from turnfleet import Fleet

DEFAULT_REDIS = "redis://localhost:6379/0"
DEFAULT_FLEET = "default"
REDIS_VARIABLE = "TURNFLEET_REDIS_URL"
BROKER_VARIABLE = "TURNFLEET_BROKER_URL"
FLEET_VARIABLE = "TURNFLEET_NAME"
PREFIX_VARIABLE = "TURNFLEET_KEY_PREFIX"

VARIABLES: Mapping[str, str] = {
    REDIS_VARIABLE: f"the fleet's Redis, as --redis (else {DEFAULT_REDIS})",
    BROKER_VARIABLE: "the broker, as --broker (else the fleet's Redis)",
    FLEET_VARIABLE: f"the fleet's name, as --fleet (else {DEFAULT_FLEET})",
    PREFIX_VARIABLE: "what all its keys in Redis begin with, as --key-prefix (else nothing)",
}
"""What the environment may say; an option wins over it."""

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Connection:
    """Which fleet, where: None is what was not said, neither by an option nor by the environment."""

    redis: str | None = None
    broker: str | None = None
    fleet: str | None = None
    prefix: str | None = None

    def or_else(self, other: "Connection") -> "Connection":
        """Return this connection, completed by the other."""
        return Connection(
            self.redis or other.redis,
            self.broker or other.broker,
            self.fleet or other.fleet,
            self.prefix or other.prefix,
        )

    @property
    def redis_url(self) -> str:
        """The URL of the run store."""
        return self.redis or DEFAULT_REDIS

    @property
    def name(self) -> str:
        """The fleet's name."""
        return self.fleet or DEFAULT_FLEET

    @property
    def key_prefix(self) -> str:
        """What the fleet's keys begin with."""
        return self.prefix or ""

    def open(self) -> "Fleet":
        """Return the client; it connects with its first call."""
        from turnfleet import Fleet, SigningKeys  # noqa: PLC0415 - `turnfleet --help` needs no client

        try:
            signing = SigningKeys.from_environment()
        except ValueError as error:
            raise click.UsageError(str(error)) from error
        return Fleet(
            self.redis_url, name=self.name, broker_url=self.broker, signing=signing, key_prefix=self.key_prefix
        )


def _options(*, environment: bool) -> list[Callable[[Function], Function]]:
    """Return the options; the environment is read once, by the group, so that an option before it wins."""
    described = (
        ("--redis", "URL", REDIS_VARIABLE, _redis, "The fleet's Redis."),
        ("--broker", "URL", BROKER_VARIABLE, _broker, "The broker, when it is another one."),
        ("--fleet", "NAME", FLEET_VARIABLE, _fleet, "The fleet's name."),
        ("--key-prefix", "TEXT", PREFIX_VARIABLE, None, "What all its keys in Redis begin with."),
    )
    return [
        click.option(
            name, metavar=metavar, callback=check, help=text,
            envvar=variable if environment else None, show_envvar=environment,
        )
        for name, metavar, variable, check, text in described
    ]  # fmt: skip


def _redis(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    return _checked(value, redis_fault)


def _broker(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    return _checked(value, broker_fault)


def _checked(value: str | None, fault: Callable[[str], str | None]) -> str | None:
    found = fault(value) if value else None
    if found is not None:
        raise click.BadParameter(found)
    return value


def _fleet(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    if value:
        try:
            validate_id("fleet name", value)
        except InvalidId as error:
            raise click.BadParameter(str(error)) from error
    return value


class Seconds(click.FloatRange):
    """A time in seconds: 0 or more, and finite."""

    name = "seconds"

    def __init__(self) -> None:
        super().__init__(min=0)

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read it."""
        seconds: float = super().convert(value, param, ctx)
        if not math.isfinite(seconds):
            self.fail(f"{value} is no finite number of seconds", param, ctx)
        return seconds


def json_option(text: str) -> Callable[[Function], Function]:
    """Return the option `--json`, handed on as `json_out`."""
    return click.option("--json", "json_out", is_flag=True, help=text)


def group_connection(function: Function) -> Function:
    """Add the options to the group."""
    for option in reversed(_options(environment=True)):
        function = option(function)
    return function


def connected(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command and hand it a `Connection` as its first argument."""

    @functools.wraps(function)
    def command(
        *args: Any, redis: str | None, broker: str | None, fleet: str | None, key_prefix: str | None, **kwargs: Any
    ) -> Any:
        above = click.get_current_context().find_object(Connection) or Connection()
        connection = Connection(redis, broker, fleet, key_prefix).or_else(above)
        try:
            return function(connection, *args, **kwargs)
        except UnknownRun as error:
            from turnfleet.store.place import shown  # noqa: PLC0415 - `turnfleet --help` needs no client

            # The usual reason is that another terminal has other variables.
            error.add_note(f"looked for in fleet {connection.name!r} at {shown(connection.redis_url)}")
            raise

    for option in reversed(_options(environment=False)):
        command = option(command)
    return command
