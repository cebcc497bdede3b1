"""What the kernel needs from the world: one Protocol a port (CONTRACT section 2).

Ports are shared by every invocation of a plan and must be safe for that (IPL-1). A transcript is opaque to the
kernel: only the conversation port knows its type.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeAlias, runtime_checkable

from turnfleet_kernel.contracts.events import KernelEvent
from turnfleet_kernel.contracts.spec import PlanSpec
from turnfleet_kernel.contracts.stages import Stage
from turnfleet_kernel.contracts.values import (
    Delta,
    ModelTurn,
    PromptAssembly,
    RunIdentity,
    ToolDescription,
    ToolOutcome,
    ToolRequest,
)

__all__ = [
    "BindableSink",
    "Clock",
    "ConversationPort",
    "EventSink",
    "Ids",
    "ModelPort",
    "ModelRound",
    "PlanRegistry",
    "ResponsePort",
    "SnapshotsPort",
    "ToolPort",
    "Transcript",
]

Transcript: TypeAlias = Any


class ModelRound(Protocol):
    """One streaming turn in the making."""

    def deltas(self) -> AsyncIterator[Delta]:
        """Iterate over the pieces; the runner closes the iterator on every path."""

    def result(self) -> ModelTurn:
        """Give the finished turn; asked after the deltas are exhausted."""


class ModelPort(Protocol):
    """A model, bound to the plan's instructions and tool declarations."""

    async def invoke(self, transcript: Transcript) -> ModelTurn:
        """Give the next turn whole."""

    def stream(self, transcript: Transcript) -> ModelRound:
        """Give the next turn piece by piece."""


class ToolPort(Protocol):
    """The manifest of what a plan may call (IPL-5): no other tool can be called through it."""

    async def call(self, request: ToolRequest) -> ToolOutcome:
        """Make a call; an unknown name is an error outcome that says which names exist (TOL-3)."""

    def schema(self, name: str) -> Mapping[str, Any] | None:
        """Give the JSON Schema of a tool's arguments; None where nothing is to be checked."""

    def names(self) -> tuple[str, ...]:
        """List the tools that can be called."""

    def describe(self, name: str) -> ToolDescription:
        """Say what a model needs to know of a tool. Raises KeyError for a name that does not exist."""


class ConversationPort(Protocol):
    """The owner of transcripts."""

    def open_turn(self, assembly: PromptAssembly) -> Transcript:
        """Start a transcript."""

    def close_round(
        self,
        transcript: Transcript,
        turn: ModelTurn,
        requests: Sequence[ToolRequest],
        outcomes: Sequence[ToolOutcome],
    ) -> None:
        """Write a finished round into the transcript, in place."""

    def messages(self, transcript: Transcript) -> tuple[Any, ...]:
        """Project the transcript for an outcome."""

    def dump(self, transcript: Transcript) -> Any:
        """Write the transcript as JSON; the loop never asks for it."""

    def load(self, value: Any) -> Transcript:
        """Read what dump() wrote."""


class ResponsePort(Protocol):
    """How an answer becomes an output."""

    @property
    def structured(self) -> bool:
        """Tell whether extract() is to be asked; if not, the output is the text."""

    async def extract(self, transcript: Transcript) -> object:
        """Read the output off the finished transcript; raise if it is not there."""


class EventSink(Protocol):
    """Where events go before the consumer sees them (EVT-5)."""

    async def deliver(self, event: KernelEvent) -> None:
        """Take one event."""


@runtime_checkable
class BindableSink(Protocol):
    """A sink that gives each run a sink of its own (EVT-9); that one's optional ``close()`` is called at teardown."""

    def bind(self, identity: RunIdentity, metadata: Mapping[str, Any]) -> EventSink:
        """Give the sink of this run."""


class Clock(Protocol):
    """Time, as a plan's invocations see it."""

    def now(self) -> datetime:
        """Tell the time, aware, in UTC."""

    def monotonic(self) -> float:
        """Tell seconds that only ever grow."""


class Ids(Protocol):
    """Where fresh ids come from."""

    def new(self) -> str:
        """Give an id that was never given before."""


class SnapshotsPort(Protocol):
    """A slot that a delegated run holds for its whole life (DEL-3). Both may be plain or async."""

    def open(self) -> Any:
        """Take a slot; gives a token."""

    def close(self, token: Any) -> Any:
        """Give the slot back."""


class PlanRegistry(Protocol):
    """What compile_plan() binds names with. Binding must be pure given (spec, registry) (IPL-3)."""

    def known_names(self) -> Mapping[str, frozenset[str]]:
        """List what exists, by kind: "model", "tool", "stage", "delegate"."""

    def has_model(self, name: str) -> bool:
        """Tell whether a model can be bound, also one from an open set of names."""

    def bind_tools(self, spec: PlanSpec) -> ToolPort:
        """Give the manifest: the plan's tools and delegates and no other (IPL-5)."""

    def bind_model(self, name: str, spec: PlanSpec, tools: ToolPort) -> ModelPort:
        """Give the model, told of the plan's instructions and tools."""

    def bind_stages(self, spec: PlanSpec) -> tuple[Stage, ...]:
        """Give the plan's stages in order, and what its tools' policies need."""

    def bind_response(self, spec: PlanSpec) -> ResponsePort | None:
        """Give the response port; None for text."""
