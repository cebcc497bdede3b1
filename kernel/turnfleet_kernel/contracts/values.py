"""The values that ports, loop and consumers exchange. All are frozen and compare by value."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Literal, Self, TypeVar

from turnfleet_kernel.contracts.frozen import FrozenDict
from turnfleet_kernel.contracts.interrupts import Decision, Interrupt
from turnfleet_kernel.contracts.quick import quick_init

__all__ = [
    "Delta",
    "DeltaKind",
    "InvocationOutcome",
    "ModelTurn",
    "PausedOutcome",
    "PromptAssembly",
    "RunIdentity",
    "ToolDescription",
    "ToolOutcome",
    "ToolRequest",
    "TurnRequest",
    "UsageDelta",
]

OutputT_co = TypeVar("OutputT_co", covariant=True)

DeltaKind = Literal["text", "reasoning", "tool_call"]
"""What a piece of a streaming turn belongs to; its event's kind is the same word with ``_delta``."""


@quick_init
@dataclass(frozen=True, slots=True)
class UsageDelta:
    """What one model call (or a whole run) used: token counts and the number of provider requests. Adds with ``+``."""

    input_tokens: int = 0
    output_tokens: int = 0
    requests: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0

    def __add__(self, other: "UsageDelta") -> "UsageDelta":
        """Sum both, field by field."""
        if other is NO_USAGE:
            return self
        if self is NO_USAGE:
            return other
        return UsageDelta(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.requests + other.requests,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )

    def __bool__(self) -> bool:
        """Tell whether any field is not zero; a round of zeros has no ``usage`` event (EVT-3)."""
        return self is not NO_USAGE and bool(
            self.requests
            or self.input_tokens
            or self.output_tokens
            or self.cache_read_tokens
            or self.cache_write_tokens
            or self.reasoning_tokens
        )

    @property
    def total_tokens(self) -> int:
        """Input and output tokens together (cached and reasoning tokens are parts of them)."""
        return self.input_tokens + self.output_tokens


NO_USAGE = UsageDelta()

_NO_ARGUMENTS: Final = FrozenDict[str, Any]()


@quick_init
@dataclass(frozen=True, slots=True)
class Delta:
    """One piece of a model turn while it is being produced."""

    kind: DeltaKind
    text: str


@quick_init
@dataclass(frozen=True, slots=True)
class ToolRequest:
    """A call that the model asks for. ``call_id`` is None until the kernel reserves one (RES-3)."""

    call_id: str | None
    name: str
    arguments: Mapping[str, Any] = _NO_ARGUMENTS


@quick_init
@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What a call gave: a value, or ``error`` as text for the model (TOL-2).

    ``duration_ms`` is in milliseconds. ``usage`` is what the call spent on models itself (a child agent's runs),
    charged to the run when the round is recorded (DEL-1).
    """

    call_id: str
    name: str
    value: Any = None
    error: str | None = None
    duration_ms: float = 0.0
    usage: UsageDelta = NO_USAGE


@dataclass(frozen=True, slots=True)
class ToolDescription:
    """What a model adapter needs to declare a tool: its JSON Schema is that of an object of arguments, or None."""

    name: str
    description: str = ""
    schema: Mapping[str, Any] | None = None


@quick_init
@dataclass(frozen=True, slots=True)
class ModelTurn:
    """One finished turn of a model.

    ``shown`` is what a consumer who did not ask for deltas is shown; None means the text. ``provider`` is JSON that
    only the model port understands (signatures of reasoning, ids of a provider's own) and wants to see again in the
    transcript: the conversation port keeps it with the turn, nobody else looks into it.
    """

    text: str = ""
    usage: UsageDelta = NO_USAGE
    stop_reason: str | None = None
    tool_requests: tuple[ToolRequest, ...] = ()
    shown: tuple[Delta, ...] | None = None
    provider: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """What to run this time.

    ``attachments`` and ``history`` are JSON values that the conversation port understands; ``metadata`` travels to
    the sink (EVT-9); ``decisions`` answers interrupts by their id (HK-4).
    """

    prompt: str
    attachments: tuple[Any, ...] = ()
    history: tuple[Any, ...] = ()
    run_id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=FrozenDict)
    decisions: Mapping[str, Decision] = field(default_factory=FrozenDict)


@quick_init
@dataclass(frozen=True, slots=True)
class PromptAssembly:
    """What a turn is opened with (STG-7)."""

    instructions: str
    prompt: str
    attachments: tuple[Any, ...] = ()
    history: tuple[Any, ...] = ()


@quick_init
@dataclass(frozen=True, slots=True)
class RunIdentity:
    """Who a run is within its tree; a root's ``root_run_id`` is its own id (DEL-1)."""

    run_id: str
    root_run_id: str
    parent_run_id: str | None = None
    depth: int = 0

    @classmethod
    def root(cls, run_id: str) -> Self:
        """Identify a run that nobody delegated."""
        return cls(run_id, run_id)

    def child(self, run_id: str) -> "RunIdentity":
        """Identify a run that this one delegates to: same root, one deeper."""
        return RunIdentity(run_id, self.root_run_id, self.run_id, self.depth + 1)


@quick_init
@dataclass(frozen=True, slots=True)
class InvocationOutcome(Generic[OutputT_co]):
    """What a completed run gave (EVT-6).

    ``text`` is the text of all rounds; ``output`` is what the response port extracted (the text when the plan asks
    for no structure, None when a limit ended the run before an answer); ``duration_ms`` counts running
    milliseconds of this invocation.
    """

    text: str
    output: OutputT_co
    messages: tuple[Any, ...]
    tool_outcomes: tuple[ToolOutcome, ...]
    usage: UsageDelta
    run_id: str
    duration_ms: float
    stop_reason: str | None


@quick_init
@dataclass(frozen=True, slots=True)
class PausedOutcome:
    """The run waits for people: answer these interrupts to go on (HK-1)."""

    run_id: str
    interrupts: tuple[Interrupt, ...]
