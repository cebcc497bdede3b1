"""How a run asks a person, and what a person may answer (HK-1, HK-2, HK-6)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import ConfigDict, Discriminator, TypeAdapter

__all__ = [
    "DECISIONS",
    "INTERRUPT",
    "PAUSE_KINDS",
    "Answer",
    "Approve",
    "Decided",
    "Decision",
    "Edit",
    "Interrupt",
    "InterruptKind",
    "InvocationPaused",
    "InvocationPreempted",
    "Reject",
    "Retry",
]

InterruptKind = Literal["approval", "question", "in_doubt"]

PAUSE_KINDS: frozenset[str] = frozenset(get_args(InterruptKind))
"""Kinds of interrupts, and of the events that report a pause (EVT-11)."""

_STRICT = ConfigDict(extra="forbid", hide_input_in_errors=True)


@dataclass(frozen=True, slots=True)
class Interrupt:
    """One thing that a run waits for.

    ``payload`` is JSON. Of an approval: tool, arguments, digest, roles, expires_at, and the tool's schema where it
    has one; of a question: question, schema; of an in_doubt: tool, arguments, digest.
    """

    __pydantic_config__ = ConfigDict(defer_build=True)

    id: str
    kind: InterruptKind
    payload: Mapping[str, Any] = field(default_factory=dict)
    call_id: str | None = None

    def __post_init__(self) -> None:
        """Refuse an interrupt that no event kind could report."""
        if self.kind not in PAUSE_KINDS:
            msg = f"interrupt {self.id!r} has kind {self.kind!r}; it must be one of {', '.join(sorted(PAUSE_KINDS))}"
            raise ValueError(msg)


@dataclass(frozen=True, slots=True)
class Approve:
    """Go on. For an in_doubt: it did happen, and this is its value."""

    __pydantic_config__ = _STRICT

    value: Any = None
    kind: Literal["approve"] = field(default="approve", kw_only=True, repr=False)


@dataclass(frozen=True, slots=True)
class Edit:
    """Go on, with these arguments instead."""

    __pydantic_config__ = _STRICT

    arguments: Mapping[str, Any]
    kind: Literal["edit"] = field(default="edit", kw_only=True, repr=False)


@dataclass(frozen=True, slots=True)
class Reject:
    """Do not do it; the model sees the reason."""

    __pydantic_config__ = _STRICT

    reason: str = ""
    kind: Literal["reject"] = field(default="reject", kw_only=True, repr=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a question; it must fit the question's schema."""

    __pydantic_config__ = _STRICT

    value: Any
    kind: Literal["answer"] = field(default="answer", kw_only=True, repr=False)


@dataclass(frozen=True, slots=True)
class Retry:
    """Make the call that is in doubt again."""

    __pydantic_config__ = _STRICT

    kind: Literal["retry"] = field(default="retry", kw_only=True, repr=False)


Decision: TypeAlias = Annotated[Approve | Edit | Reject | Answer | Retry, Discriminator("kind")]
"""What a person may answer; on the wire told apart by ``kind``."""


@dataclass(frozen=True, slots=True)
class Decided:
    """An interrupt together with the decision taken on it (HK-3)."""

    interrupt: Interrupt
    decision: Decision

    @property
    def is_outcome(self) -> bool:
        """Whether the decision is the call's outcome by itself, so that no call is made (HK-4)."""
        match self.decision:
            case Reject() | Answer():
                return True
            case Approve():
                return self.interrupt.kind == "in_doubt"
            case _:
                return False


DECISIONS: TypeAdapter[Approve | Edit | Reject | Answer | Retry] = TypeAdapter(
    Decision, config=ConfigDict(hide_input_in_errors=True, defer_build=True)
)
INTERRUPT: TypeAdapter[Interrupt] = TypeAdapter(Interrupt)


class InvocationPaused(BaseException):
    """Raised by a tool or a pre-tool stage to wait for people (HK-2).

    It is no Exception: code in between that catches Exception cannot mistake it for a failure.
    """

    def __init__(self, *interrupts: Interrupt) -> None:
        """Wait for these interrupts, at least one."""
        if not interrupts:
            msg = "InvocationPaused needs at least one interrupt to wait for"
            raise ValueError(msg)
        super().__init__(*interrupts)
        self.interrupts: tuple[Interrupt, ...] = interrupts


class InvocationPreempted(BaseException):
    """Raised by a port wrapper to hand the run over: this invocation ends, the run does not (CXL-7)."""

    def __init__(self, reason: str = "") -> None:
        """Say why the run is handed over."""
        super().__init__(reason)
        self.reason = reason
