"""What a client does next, as values. The client decides in plain generators; a driver, sync or async, performs.

A flow yields one step at a time and gets its result back, or the error that it raised, at the same place. Both
clients so share everything but the waiting.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from turnfleet.errors import TurnfleetError
from turnfleet.store import Command
from turnfleet.store.records import Offer
from turnfleet.wire import Envelope

T = TypeVar("T")

Message: TypeAlias = tuple[Offer, Envelope]
"""An offer, and what travels with it."""


@dataclass(frozen=True, slots=True)
class Execute(Generic[T]):
    """Run one command in the store; gives what it decodes to."""

    command: Command[T]


@dataclass(frozen=True, slots=True)
class ExecuteMany(Generic[T]):
    """Run commands in one round trip; gives their results, in order, an error in the place of a failed one."""

    commands: Sequence[Command[T]]


@dataclass(frozen=True, slots=True)
class Publish:
    """Hand messages to the broker, in order, on one connection."""

    messages: Sequence[Message]


@dataclass(frozen=True, slots=True)
class Now:
    """Ask the fleet's clock, which is Redis'; gives Unix seconds."""


@dataclass(frozen=True, slots=True)
class Listen:
    """Wait for what the run's channel says next, at most `timeout` seconds; gives the message, or None."""

    timeout: float


@dataclass(frozen=True, slots=True)
class Emit(Generic[T]):
    """Hand a value to whoever iterates."""

    value: T


Step: TypeAlias = Execute[Any] | ExecuteMany[Any] | Publish | Now
Flow: TypeAlias = Generator[Step, Any, T]
"""A sequence of steps that ends in a T."""


def execute(command: Command[T]) -> Flow[T]:
    """Run one command."""
    result: T = yield Execute(command)
    return result


def execute_many(commands: Sequence[Command[T]]) -> Flow[list[T | TurnfleetError]]:
    """Run commands in one round trip; an error stands in its command's place."""
    results: list[T | TurnfleetError] = yield ExecuteMany(commands)
    return results


def execute_all(commands: Sequence[Command[T]]) -> Flow[list[T]]:
    """Run commands in one round trip; the first error is raised."""
    results: list[T] = []
    for result in (yield from execute_many(commands)):
        if isinstance(result, TurnfleetError):
            raise result
        results.append(result)
    return results


def publish(messages: Sequence[Message]) -> Flow[None]:
    """Publish messages."""
    yield Publish(messages)


def now() -> Flow[float]:
    """Ask the fleet's clock."""
    moment: float = yield Now()
    return moment
