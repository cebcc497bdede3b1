"""A scripted person: decides what agents wait for, under a name and with roles, and remembers what was asked."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from turnfleet.client.given import roles_of
from turnfleet.errors import TurnfleetError
from turnfleet.interrupt import RunInterrupt
from turnfleet_kernel.contracts.interrupts import Answer, Approve, Decision, Edit, Reject, Retry
from turnfleet_worker.ask import ASK

Answering: TypeAlias = Callable[[RunInterrupt], Decision | None]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a person was asked, and said. `decision` None: left open. `refused`: why the decision did not count."""

    interrupt: RunInterrupt
    decision: Decision | None
    refused: TurnfleetError | None = None


class Person:
    """Decides by a script: decisions by the name of the tool that waits (`ask` for a question), or a function.

    The function gets the interrupt and gives a decision, or None to leave it open; so may the values of a mapping.
    What the script does not name is left open. `roles` are all that the person has: a tool that names other roles
    refuses the decision, here as everywhere. `seen` holds what was asked, in order.
    """

    def __init__(
        self,
        script: Mapping[str, Decision | Answering] | Answering,
        *,
        name: str = "person",
        roles: tuple[str, ...] = (),
    ) -> None:
        for said in script.values() if isinstance(script, Mapping) else (script,):
            _check(said)
        self.name = name
        self.roles = roles_of(roles)
        self.seen: list[Asked] = []
        self._script = script

    def __repr__(self) -> str:
        return f"<Person {self.name!r} with the roles {', '.join(self.roles) or 'none'}>"

    def decide(self, interrupt: RunInterrupt) -> Decision | None:
        """Say what this person makes of an interrupt; raises what a function of the script raises."""
        script = self._script
        said = script.get(interrupt.tool or ASK) if isinstance(script, Mapping) else script
        return said(interrupt) if callable(said) else said


def _check(said: object) -> None:
    """Refuse what decides nothing. A class does not: called with the interrupt, it would be a decision about that."""
    if said is None or isinstance(said, Answer | Approve | Edit | Reject | Retry):
        return
    if isinstance(said, type) or not callable(said):
        raise TypeError(f"a person's script holds decisions, such as Approve(), or functions, not {said!r:.80}")
