"""The options that every command has, and the fleet that they name."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from turnfleet import Fleet

DEFAULT_REDIS = "redis://localhost:6379/0"
DEFAULT_FLEET = "default"
REDIS_VARIABLE = "TURNFLEET_REDIS_URL"
BROKER_VARIABLE = "TURNFLEET_BROKER_URL"
FLEET_VARIABLE = "TURNFLEET_NAME"
PREFIX_VARIABLE = "TURNFLEET_KEY_PREFIX"

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
        ("--redis", "URL", REDIS_VARIABLE, f"The fleet's Redis (else {REDIS_VARIABLE}, else {DEFAULT_REDIS})."),
        ("--broker", "URL", BROKER_VARIABLE, f"The broker, when it is another one (else {BROKER_VARIABLE})."),
        ("--fleet", "NAME", FLEET_VARIABLE, f"The fleet's name (else {FLEET_VARIABLE}, else {DEFAULT_FLEET})."),
        ("--key-prefix", "TEXT", PREFIX_VARIABLE, f"What all its keys in Redis begin with (else {PREFIX_VARIABLE})."),
    )
    return [
        click.option(name, metavar=metavar, envvar=variable if environment else None, help=text)
        for name, metavar, variable, text in described
    ]


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
        return function(Connection(redis, broker, fleet, key_prefix).or_else(above), *args, **kwargs)

    for option in reversed(_options(environment=False)):
        command = option(command)
    return command
